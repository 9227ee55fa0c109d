// Reads AsyncAPI documents (files named on the command line): a line of JSON for each, with all that the official JSON Schemas of
// 3.0 and 3.1 and the official parser find in it.
import fs from 'node:fs';
import Ajv from 'ajv';
import { Parser } from '@asyncapi/parser';
import specs from '@asyncapi/specs';

const validators = ['3.0.0', '3.1.0'].map((version) => {
  const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false, meta: false, validateSchema: false });
  return [version, ajv.compile(specs.schemas[version])];
});
for (const file of process.argv.slice(2)) {
  const text = fs.readFileSync(file, 'utf8');
  const found = [];
  for (const [version, validate] of validators) {
    if (!validate({ ...JSON.parse(text), asyncapi: version })) {
      found.push(...validate.errors.map((error) => `${version} ${error.instancePath} ${error.message}`));
    }
  }
  const { document, diagnostics } = await new Parser().parse(text);
  found.push(...diagnostics.filter((one) => one.severity < 2).map((one) => `${one.code} ${one.path.join('/')} ${one.message}`));
  const operations = document ? document.operations().all().length : null;
  console.log(JSON.stringify({ file, found, operations }));
}
