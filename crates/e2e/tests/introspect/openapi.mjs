// Checks an OpenAPI description, and answers against its schemas.
import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020.js';

const { description, answers } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const validator = new Validator();
const { valid, errors } = await validator.validate(structuredClone(description));
if (!valid) {
  console.log('the description is wrong', JSON.stringify(errors, null, 2));
  process.exit(1);
}
console.log(`OpenAPI ${validator.version}: valid`);

// Schemas refer to each other by their place in the description.
const ajv = new Ajv2020({ allErrors: true, strict: true, strictTypes: false, strictRequired: false });
ajv.addVocabulary(['openapi', 'info', 'servers', 'security', 'paths', 'components']);
ajv.addSchema({ ...description, $id: 'description' });
let wrong = 0;
for (const [path, { schema, body }] of Object.entries(answers)) {
  const check = ajv.compile({ $ref: `description#/components/schemas/${schema}` });
  if (!check(body)) {
    wrong += 1;
    console.log(`${path} is no ${schema}`, JSON.stringify(check.errors, null, 2), JSON.stringify(body, null, 2));
  }
}
console.log(`${Object.keys(answers).length} answers checked`);
process.exit(wrong ? 1 : 0);
