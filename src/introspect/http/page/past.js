// ---- the history that the server keeps, and what the address says of the view ----------------------------------------
const VIEW = { partition: '', label: '', namespace: '', span: '10m', sort: 'harm', order: 'desc', contains: '', status: '', offset: '0', at: '' };
const SPANS = { '5m': 300, '10m': 600, '1h': 3600 };
let view = { ...VIEW };
const hashOf = change => {
  const { span, at } = view, all = { ...VIEW, span, at, ...change };
  return `#${new URLSearchParams(Object.entries(all).filter(([name, value]) => String(value) !== VIEW[name]))}`;
};
function readHash() {
  view = { ...VIEW };
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (name in VIEW) view[name] = value;
  if (!(view.span in SPANS)) view.span = VIEW.span;
  if (!(Number(view.offset) >= 0)) view.offset = VIEW.offset;
  if (!(Number(view.at) > 0)) view.at = VIEW.at;
  $('span').value = view.span;
  if ($('filter').value !== view.contains) $('filter').value = view.contains;
  $('status').value = view.status;
  document.body.classList.toggle('of-one', Boolean(view.partition || view.label));
}
/** Changes the view, and with it the address, so that a copy of the address shows the same. */
function go(change) {
  view = { ...view, ...change };
  history.replaceState(null, '', hashOf(view));
  readHash();
}

// Times are those of the wall: a server that was started anew goes on where the last one stopped.
const past = { frames: [], marks: [], of: '', until: 0, run: 0, age: 0, start: 0, full: 0 };
function historyPath() {
  const of = JSON.stringify([view.label, view.namespace, view.span, !view.partition]);
  // Anew from time to time, since what is older than some minutes is told more coarsely.
  if (past.of !== of || Date.now() - past.full > 240_000) past.until = 0;
  past.wanted = of;
  const label = view.label ? { label: view.label, namespace: view.namespace } : view.partition ? {} : { labels: 'top' };
  return `/history?${new URLSearchParams({ last: view.span, since: past.until, ...label })}`;
}
function remember(page, age) {
  const start = Date.now() / 1000 - age;
  if (past.of !== past.wanted) Object.assign(past, { frames: [], marks: [], of: past.wanted });
  const isOther = age + 1 < past.age;
  if (isOther) Object.assign(past, { run: past.run + 1, until: 0 });
  if (Math.abs(start - past.start) > 2) past.start = start;
  past.age = age;
  const { run } = past, wall = at => past.start + at;
  const isNew = past.until === 0;
  if (isNew) past.full = Date.now();
  for (const frame of page.frames) for (const it of [...frame.partitions, ...frame.labels ?? []]) it.called = fullName(it.namespace, it.name);
  const frames = page.frames.filter(frame => isNew || frame.to_seconds > past.until)
    .map(frame => ({ ...frame, run, from: wall(frame.from_seconds), to: wall(frame.to_seconds) }));
  past.frames = past.frames.filter(frame => !isNew || frame.run !== run).concat(frames);
  // The question was about the time of the process before: the next one is about all of this process.
  past.until = isOther ? 0 : page.frames.at(-1)?.to_seconds ?? past.until;
  const marks = page.marks.map(it => ({ run, sequence: it.sequence, at: wall(it.at_seconds), kind: it.change, text: sayChange(it) }));
  const known = new Set(marks.map(it => it.sequence));
  past.marks = past.marks.filter(it => it.run !== run || !isNew && !known.has(it.sequence)).concat(marks);
  if (!past.marks.some(it => it.run === run && it.kind === 'start'))
    past.marks.push({ run, sequence: 0, at: wall(0), kind: 'start', text: 'the process started' });
  const earliest = Date.now() / 1000 - SPANS[view.span];
  past.frames = past.frames.filter(frame => frame.to > earliest);
  past.marks = past.marks.filter(it => it.at > earliest);
}
const UNKNOWN = { summary: 'nothing is known of this moment', from: 0, to: 1, limit: 0, partitions: [] };
/** The frame of the moment that was picked, if any was. */
const picked = () => view.at && (past.frames.find(it => it.from <= view.at && it.to > view.at) ?? UNKNOWN);
/** What that frame says of the labels and partitions that suffered or held most, as the server chooses them for now. */
function foremostOf(frame) {
  const lasts = frame.to - frame.from, rows = (table, kind) => (table ?? []).filter(it => it.name).map(it => ({
    ...it, kind, rejected_per_second: it.rejected / lasts, left_per_second: it.left / lasts, harm: (it.rejected + it.left) / lasts + it.waiting,
  }));
  const labels = rows(frame.labels, 'label'), partitions = rows(frame.partitions, 'partition'), orders = ['harm', 'in_flight'];
  const all = (rows, order) => rows.reduce((sum, it) => sum + it[order], 0);
  const both = orders.some(order => all(labels, order) * 2 < all(partitions, order)) ? [...labels, ...partitions] : labels;
  const most = orders.map(order => both.filter(it => it[order] > 0).sort((a, b) => b[order] - a[order]));
  return [...new Set([0, 1, 2, 3, 4].flatMap(place => most.flatMap(rows => rows[place] ?? [])))].slice(0, 5);
}
const newest = field => past.frames.length ? field(past.frames.at(-1)) : undefined;

const NOTHING = { admitted: 0, rejected: 0, would_reject: 0, in_flight: 0, waiting: 0, share: 0, rejected_by: [] };
/** The row of a frame that the view is about; null for a label that was not followed. */
function rowOf(frame) {
  if (view.label) {
    const rows = frame.labels ?? [];
    // Quantiles of several classes of work have no sum: they are shown where there is a single row.
    if (rows.length < 2) return rows[0] ?? null;
    return rows.reduce((all, it) => ({
      ...all, admitted: all.admitted + it.admitted, rejected: all.rejected + it.rejected, would_reject: all.would_reject + it.would_reject,
      in_flight: all.in_flight + it.in_flight, waiting: all.waiting + it.waiting, rejected_by: [...all.rejected_by, ...it.rejected_by ?? []],
    }), NOTHING);
  }
  if (view.partition) return frame.partitions.find(it => it.name === view.partition) ?? NOTHING;
  return frame.whole;
}
const charts = {
  load: chart('load', whole), rtt: chart('rtt', seconds), flow: chart('flow', rate), wait: chart('wait', seconds),
  parts: chart('parts', whole, true), holders: chart('holders', whole, true), refused: chart('refused', rate, true), shares: chart('shares', percent),
};
const SHOWN = 6;
/** The names with the greatest sums, and a name for all others. */
function greatest(sums) {
  const names = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return names.length > SHOWN + 1 ? [names.slice(0, SHOWN), names.slice(SHOWN)] : [names, []];
}
const named = it => it.rule && it.rule !== it.reason ? `${words(it.reason)} (${words(it.rule)})` : words(it.reason);
function draw() {
  const { frames } = past, rows = frames.map(rowOf), lasts = frames.map(frame => frame.to - frame.from);
  // A young process has no more than it has: a minute is shown at least.
  const to = Date.now() / 1000, first = Math.min(frames[0]?.from ?? to, to - 60);
  const span = [Math.max(to - SPANS[view.span], first), to];
  const shared = [past.marks, span, Number(view.at)];
  const line = (name, field) => ({ name, values: rows.map((row, at) => row ? field(row, at) ?? NaN : NaN) });
  const perSecond = (name, field) => line(name, (row, at) => field(row) / lasts[at]);

  const bound = view.label ? [] : [view.partition ? line('share', row => row === NOTHING ? NaN : row.share) : { name: 'limit', values: frames.map(it => it.limit) }];
  charts.load(frames, [line('in flight', row => row.in_flight), line('waiting', row => row.waiting), ...bound], ...shared);
  const would = rows.some(row => row?.would_reject) ? [perSecond('would be rejected', row => row.would_reject)] : [];
  charts.flow(frames, [perSecond('admitted', row => row.admitted), perSecond('rejected', row => row.rejected), ...would], ...shared);
  charts.rtt(frames, [line('p50', row => row.rtt_p50_seconds), line('p99', row => row.rtt_p99_seconds)], ...shared);
  charts.wait(frames, [line('p50', row => row.wait_p50_seconds), line('p99', row => row.wait_p99_seconds)], ...shared);

  const sums = new Map();
  for (const row of rows) for (const it of row?.rejected_by ?? []) sums.set(named(it), (sums.get(named(it)) ?? 0) + it.count);
  const [reasons, rare] = greatest(sums);
  const countOf = names => row => (row.rejected_by ?? []).reduce((all, it) => all + (names.includes(named(it)) ? it.count : 0), 0);
  const refused = reasons.map(name => perSecond(name, countOf([name])));
  charts.refused(frames, rare.length ? [...refused, perSecond('others', countOf(rare))] : refused, ...shared);
  showRefused(rows);
  if (view.partition || view.label) return;

  const gauge = (tables, name, field) => tables.map(rows => rows.reduce((all, it) => it.called === name ? all + field(it) : all, 0));
  // Whose requests ran: those of the names with the most, and of all others.
  const stack = (show, tables) => {
    const used = new Map();
    for (const rows of tables) for (const it of rows) if (it.called) used.set(it.called, (used.get(it.called) ?? 0) + it.in_flight + it.rejected / 1e6);
    const names = [...used].sort((a, b) => b[1] - a[1]).slice(0, SHOWN).map(([name]) => name);
    const held = names.map(name => ({ name, values: gauge(tables, name, it => it.in_flight) }));
    const others = frames.map((frame, at) => Math.max(held.reduce((rest, it) => rest - it.values[at], frame.whole.in_flight), 0));
    show(frames, others.some(it => it > 0.05) ? [...held, { name: 'others', values: others }] : held, ...shared);
    return names;
  };
  const labels = frames.map(frame => (frame.labels ?? []).filter(it => it.in_flight > 0));
  $('by-label').hidden = !labels.some(rows => rows.length);
  if (!$('by-label').hidden) stack(charts.holders, labels);
  const partitions = frames.map(frame => frame.partitions), parts = stack(charts.parts, partitions);
  const ratio = it => it.share > 0 ? it.in_flight / it.share : NaN;
  const fair = parts.map(name => ({ name, values: gauge(partitions, name, ratio) })).filter(it => it.values.some(Number.isFinite));
  if (fair.length) fair[0].level = 1;
  charts.shares(frames, fair, ...shared);
}
function showRefused(rows) {
  $('view').hidden = !(view.partition || view.label);
  const sums = new Map();
  for (const row of rows) for (const it of row?.rejected_by ?? []) {
    const key = JSON.stringify([it.reason, it.rule ?? '']);
    sums.set(key, (sums.get(key) ?? 0) + it.count);
  }
  const sorted = [...sums].sort((a, b) => b[1] - a[1]).map(([key, count]) => [...JSON.parse(key), count]);
  fill($('view-refused'), sorted.map(([reason, rule, count]) => [words(reason), words(rule) || '–', whole(count)]), ['status', '', 'n']);
  $('view-unknown').hidden = !view.label || rows.some(Boolean);
}
