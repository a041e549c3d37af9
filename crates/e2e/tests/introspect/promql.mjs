// Parses alert rules and a dashboard, and names what their expressions ask for.
import { readFileSync } from 'node:fs';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';

const [alerts, dashboard] = process.argv.slice(2).map(path => readFileSync(path, 'utf8'));
const wrong = [], metrics = new Set(), labels = new Set();
const asked = [];

for (const group of parse(alerts).groups) {
  for (const rule of group.rules) {
    for (const field of ['alert', 'expr', 'labels', 'annotations']) if (!rule[field]) wrong.push(`${rule.alert}: no ${field}`);
    if (!rule.annotations?.summary || !rule.labels?.severity) wrong.push(`${rule.alert}: says too little`);
    asked.push([rule.alert, rule.expr]);
  }
}
const board = JSON.parse(dashboard), ids = new Set();
for (const panel of board.panels) {
  if (ids.has(panel.id)) wrong.push(`${panel.title}: its id is taken`);
  ids.add(panel.id);
  for (const target of panel.targets ?? []) asked.push([panel.title, target.expr]);
}
for (const annotation of board.annotations.list) asked.push([annotation.name, annotation.expr]);
for (const { name, query } of board.templating.list.filter(it => it.type === 'query'))
  asked.push([name, query.query.match(/^label_values\((.*), \w+\)$/)[1]]);

for (const [where, template] of asked) {
  const expr = template.replaceAll('$__rate_interval', '1m').replaceAll(/"\$\w+"/g, '".*"');
  parser.parse(expr).iterate({
    enter(node) {
      const text = expr.slice(node.from, node.to);
      if (node.type.isError) wrong.push(`${where}: ${expr} is wrong at ${node.from}`);
      else if (node.name === 'Identifier' && node.node.parent.name === 'VectorSelector') metrics.add(text);
      else if (node.name === 'LabelName') labels.add(text);
    },
  });
}
console.log(JSON.stringify({ wrong, expressions: asked.length, metrics: [...metrics].sort(), labels: [...labels].sort() }));
