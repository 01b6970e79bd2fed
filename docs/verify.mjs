// A second verifier of proof bundles: Node 18 or later, no packages, no network.
//
//   node verify.mjs BUNDLE [--key PUBLIC_KEY_FILE_OR_64_HEX_DIGITS]
//
// It checks form, signature, seal digest, every event digest, chain, count, sequence and binding.
// It judges nothing again: the findings are then the signer's word (see bundle-format.md, step 6).
// Exit: 0 signed by the key and said to hold, 1 not genuine or said not to hold, 2 wrong use,
// 3 said to be open, 4 consistent but of unknown origin (no key given).
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const LIMIT = 256 * 1024 * 1024;

class NotGenuine extends Error {}
const need = (condition, text) => {
  if (!condition) throw new NotGenuine(text);
};

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const named = (text) => "sha256:" + sha256(text).toString("hex");

// RFC 8785 for the values a payload may hold. Without floats, JSON.stringify writes every scalar
// as that form does, and the default sort is by UTF-16 code unit.
const canonical = (value) => {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value !== null && typeof value === "object") {
    const pair = (key) => JSON.stringify(key) + ":" + canonical(value[key]);
    return "{" + Object.keys(value).sort().map(pair).join(",") + "}";
  }
  need(typeof value !== "number" || Number.isSafeInteger(value), "a number that is not whole");
  return JSON.stringify(value);
};

const decode = (text) => {
  need(typeof text === "string", "base64 must be text");
  const data = Buffer.from(text, "base64");
  need(data.toString("base64") === text, "not strict base64");
  return data;
};

const parse = (data, what) => {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data));
  } catch {
    throw new NotGenuine(`${what} is not UTF-8 JSON`);
  }
};

const publicKey = (word) => {
  const prefix = Buffer.from("302a300506032b6570032100", "hex");
  const key = /^[0-9a-fA-F]{64}$/.test(word)
    ? createPublicKey({ key: Buffer.concat([prefix, Buffer.from(word, "hex")]), format: "der", type: "spki" })
    : createPublicKey(readFileSync(word, "utf-8"));
  if (key.asymmetricKeyType !== "ed25519") throw new Error("not an Ed25519 key");
  const hex = key.export({ format: "der", type: "spki" }).subarray(12).toString("hex");
  const form = { keytype: "ed25519", scheme: "ed25519", keyval: { public: hex } };
  return { key, id: sha256(canonical(form)).toString("hex") };
};

const checkSignature = (envelope, payload, pin) => {
  need(envelope.signatures.length === 1, "unsigned");
  const [{ keyid, sig }] = envelope.signatures;
  need(keyid === pin.id, "signed by another key");
  const type = Buffer.from(PAYLOAD_TYPE);
  const head = Buffer.from(`DSSEv1 ${type.length} ${PAYLOAD_TYPE} ${payload.length} `);
  need(verify(null, Buffer.concat([head, payload]), pin.key, decode(sig)), "the signature is wrong");
};

const checkRun = (run, texts, place) => {
  need(run.events === texts.length, `${place}: events`);
  texts.forEach((text, seq) => need(JSON.parse(text).seq === seq, `${place}: event ${seq}`));
  const trace = "c1:sha256:" + sha256("[" + texts.join(",") + "]").toString("hex");
  need(run.trace_digest === trace, `${place}: trace_digest`);
  const chain = texts.reduce((before, text) => sha256(before, text), sha256(""));
  need(run.chain_digest === "c1:chain-sha256:" + chain.toString("hex"), `${place}: chain_digest`);
};

const checkStatement = (statement) => {
  need(statement._type === "https://in-toto.io/Statement/v1", "_type");
  need(statement.predicateType === "https://pytest-evarness.readthedocs.io/proof/v1", "predicateType");
  const { seal, texts, cases } = statement.predicate;
  const { digest, ...contents } = seal;
  need(digest === named(canonical(contents)), "seal.digest");
  for (const row of [...seal.definitions, ...texts]) need(row.digest === named(row.text), "text digest");
  const planned = new Map(seal.plan.map((entry) => [entry.nodeid, entry]));
  for (const entry of cases) {
    const plan = planned.get(entry.nodeid);
    need(plan !== undefined, `${entry.nodeid}: not planned`);
    planned.delete(entry.nodeid);
    need(named(entry.inputs.compiled) === plan.digest, `${entry.nodeid}: compiled`);
    need(named(entry.inputs.scenario) === plan.scenario, `${entry.nodeid}: scenario`);
    for (const replica of entry.replicas) {
      for (const run of replica.runs) {
        const place = `${entry.nodeid} run ${run.label}`;
        const world = run.label === "b" && replica.world_b !== null ? replica.world_b : replica.world;
        need(run.world_digest === named(world), `${place}: world_digest`);
        const parts = ["evarness-run-v1", digest, entry.nodeid, replica.replica, run.label, run.chain_digest];
        need(run.binding === named(parts.join("\0")), `${place}: binding`);
        if (replica.events === null) continue;
        const events = run.label === "b" && replica.events_b !== null ? replica.events_b : replica.events;
        checkRun(run, events, place);
      }
    }
  }
  return statement.predicate.verdict;
};

const main = ([path, option, word, ...rest]) => {
  if (path === undefined || rest.length || (option !== undefined && (option !== "--key" || !word))) {
    console.error("usage: node verify.mjs BUNDLE [--key PUBLIC_KEY_FILE_OR_64_HEX_DIGITS]");
    return 2;
  }
  let data, pin;
  try {
    data = readFileSync(path);
    pin = option === undefined ? undefined : publicKey(word);
  } catch (error) {
    console.error(error.message);
    return 2;
  }
  try {
    need(data.length <= LIMIT, "too large");
    const envelope = parse(data, "the file");
    need(Object.keys(envelope ?? {}).sort().join() === "payload,payloadType,signatures", "no envelope");
    need(envelope.payloadType === PAYLOAD_TYPE, "another payload type");
    need(canonical(envelope) + "\n" === data.toString("utf-8"), "the envelope is not canonical");
    const payload = decode(envelope.payload);
    if (pin !== undefined) checkSignature(envelope, payload, pin);
    const statement = parse(payload, "the payload");
    need(Buffer.from(canonical(statement)).equals(payload), "the payload is not canonical");
    const verdict = checkStatement(statement);
    const said = { true: "holds", false: "does not hold", null: "open" }[verdict.holds];
    const origin = pin === undefined ? "of unknown origin" : `signed by ${pin.id}`;
    console.log(`digests agree, ${origin}; the bundle says: ${said} (${verdict.note})`);
    return pin === undefined ? 4 : verdict.holds === true ? 0 : verdict.holds === false ? 1 : 3;
  } catch (error) {
    // Anything that a hostile bundle makes the code above trip over is a reason to refuse it.
    console.log(`NOT GENUINE: ${error instanceof NotGenuine ? error.message : "malformed"}`);
    return 1;
  }
};

process.exitCode = main(process.argv.slice(2));
