// @grpc/grpc-js, which reads the .proto at run time.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import { timeoutMs, root, startDaemon } from "./daemon.mjs";

const load = (file) =>
  grpc.loadPackageDefinition(
    protoLoader.loadSync(file, { includeDirs: [join(root, "proto")], keepCase: true, enums: String, defaults: true }),
  );
const { SystemService, SandboxService } = load("berm/v1/berm.proto").berm.v1;
const { Health } = load("grpc/health/v1/health.proto").grpc.health.v1;
const insecure = grpc.credentials.createInsecure();
const deadline = () => ({ deadline: Date.now() + timeoutMs });

let daemon;
before(async () => (daemon = await startDaemon()));
after(() => daemon.stop());

/** A client whose calls carry the token, where one is given. */
function open(Service, target, token, options = {}) {
  const bearer = (callOptions, next) =>
    new grpc.InterceptingCall(next(callOptions), {
      start(metadata, listener, proceed) {
        metadata.set("authorization", `Bearer ${token}`);
        proceed(metadata, listener);
      },
    });
  return new Service(target, insecure, { ...options, interceptors: token ? [bearer] : [] });
}

function onBoth(name, run) {
  for (const wire of ["unix", "tcp"])
    test(`${name}, ${wire}`, async () => {
      const clients = [];
      const client = (Service, options) => {
        const made =
          wire === "unix"
            ? open(Service, `unix:${daemon.socket}`, undefined, options)
            : open(Service, daemon.tcp, daemon.token, options);
        clients.push(made);
        return made;
      };
      try {
        await run(client);
      } finally {
        clients.forEach((made) => made.close());
      }
    });
}

const call = (client, method, request, options = deadline()) =>
  promisify(client[method].bind(client))(request, new grpc.Metadata(), options);

/** The error a stream ends with, and what came before it. */
const drain = (stream) =>
  new Promise((done) => {
    const seen = [];
    stream.on("data", (m) => seen.push(m)).on("error", (error) => done({ error, seen }));
    stream.on("end", () => setImmediate(done, { seen }));
  });

onBoth("Ping echoes any bytes", async (client) => {
  const system = client(SystemService);
  for (const size of [0, 1, 16_384, 65_536, 1 << 20]) {
    const payload = randomBytes(size);
    assert.deepEqual((await call(system, "Ping", { payload })).payload, payload);
  }
});

onBoth("gzip", async (client) => {
  const system = client(SystemService, { "grpc.default_compression_algorithm": 2 });
  const payload = Buffer.alloc(300_000, "compressible");
  assert.deepEqual((await call(system, "Ping", { payload })).payload, payload);
});

onBoth("GetInfo", async (client) => {
  const info = await call(client(SystemService), "GetInfo", {});
  assert.equal(info.protocol, "berm.v1");
  assert.equal(info.state, "DAEMON_STATE_SERVING");
});

onBoth("health Check and Watch, which a deadline and a cancel end", async (client) => {
  const health = client(Health);
  assert.equal((await call(health, "Check", {})).status, "SERVING");
  const late = await drain(health.Watch({}, { deadline: Date.now() + 400 }));
  assert.equal(late.error.code, grpc.status.DEADLINE_EXCEEDED); // before the first answer, where the machine is slow
  const watch = health.Watch({}, deadline());
  watch.once("data", () => watch.cancel());
  const left = await drain(watch);
  assert.equal(left.error.code, grpc.status.CANCELLED);
  assert.deepEqual(left.seen, [{ status: "SERVING" }]);
  assert.equal((await call(health, "Check", {})).status, "SERVING");
});

onBoth("what is not built says so by name", async (client) => {
  await assert.rejects(call(client(SandboxService), "SnapshotSandbox", {}), (error) => {
    assert.equal(error.code, grpc.status.UNIMPLEMENTED);
    assert.match(error.details, /SnapshotSandbox/);
    assert.equal(error.metadata.get("grpc-status-details-bin").length, 1);
    return true;
  });
});

onBoth("a message over the limit", async (client) => {
  const system = client(SystemService);
  await assert.rejects(call(system, "Ping", { payload: Buffer.alloc(8 << 20) }), {
    code: grpc.status.RESOURCE_EXHAUSTED,
  });
  await call(system, "Ping", {});
});

test("strangers on TCP", async () => {
  const bare = open(SystemService, daemon.tcp);
  await assert.rejects(call(bare, "Ping", {}), { code: grpc.status.UNAUTHENTICATED });
  const wrong = open(SystemService, daemon.tcp, "wrong");
  await assert.rejects(call(wrong, "Ping", {}), { code: grpc.status.UNAUTHENTICATED });
  const foreign = open(SystemService, daemon.tcp, daemon.token, { "grpc.default_authority": "evil.example.com" });
  await assert.rejects(call(foreign, "Ping", {}), { code: grpc.status.PERMISSION_DENIED });
  [bare, wrong, foreign].forEach((client) => client.close());
});

test("a drain ends an open Watch", async () => {
  const own = await startDaemon();
  const health = open(Health, `unix:${own.socket}`);
  const watch = health.Watch({}, deadline());
  const ended = drain(watch);
  await new Promise((seen) => watch.once("data", seen));
  await own.stop();
  assert.equal((await ended).error.code, grpc.status.UNAVAILABLE);
  health.close();
});
