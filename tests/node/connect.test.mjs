// connect-node's gRPC transport with the generated code of clients/typescript.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import net from "node:net";
import { after, before, test } from "node:test";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { ExecService, SandboxService, SystemService } from "../../clients/typescript/dist/gen/berm/v1/berm_pb.js";
import { timeoutMs, startDaemon } from "./daemon.mjs";

let daemon;
before(async () => (daemon = await startDaemon()));
after(() => daemon.stop());

function onBoth(name, run) {
  for (const wire of ["unix", "tcp"])
    test(`${name}, ${wire}`, async () => {
      const baseUrl = wire === "unix" ? "http://localhost" : `http://${daemon.tcp}`;
      const nodeOptions = wire === "unix" ? { createConnection: () => net.connect(daemon.socket) } : {};
      const sessionManager = new Http2SessionManager(baseUrl, {}, nodeOptions);
      const bearer = (next) => (request) => {
        if (wire === "tcp") request.header.set("authorization", `Bearer ${daemon.token}`);
        return next(request);
      };
      const transport = (options) =>
        createGrpcTransport({ baseUrl, httpVersion: "2", sessionManager, interceptors: [bearer], defaultTimeoutMs: timeoutMs, ...options });
      try {
        await run(transport);
      } finally {
        sessionManager.abort();
      }
    });
}

const refusedWith = (code) => (error) => {
  assert.equal(ConnectError.from(error).code, code, String(error));
  return true;
};

onBoth("Ping echoes any bytes", async (transport) => {
  const system = createClient(SystemService, transport());
  for (const size of [0, 1, 65_536, 1 << 20]) {
    const payload = randomBytes(size);
    assert.deepEqual(Buffer.from((await system.ping({ payload })).payload), payload);
  }
});

onBoth("gzip", async (transport) => {
  const system = createClient(SystemService, transport({ sendCompression: compressionGzip }));
  const payload = Buffer.alloc(300_000, "compressible");
  assert.deepEqual(Buffer.from((await system.ping({ payload })).payload), payload);
});

onBoth("GetInfo", async (transport) => {
  const info = await createClient(SystemService, transport()).getInfo({});
  assert.equal(info.protocol, "berm.v1");
});

onBoth("what is not built, and what is wrong, in every shape of method", async (transport) => {
  const sandboxes = createClient(SandboxService, transport());
  const execs = createClient(ExecService, transport());
  await assert.rejects(sandboxes.snapshotSandbox({}), refusedWith(Code.Unimplemented));
  await assert.rejects(first(sandboxes.watchUsage({})), refusedWith(Code.InvalidArgument));
  await assert.rejects(first(execs.interact((async function* () {})())), refusedWith(Code.InvalidArgument));
});

async function first(stream) {
  for await (const message of stream) return message;
}

onBoth("an abort leaves the connection usable", async (transport) => {
  const system = createClient(SystemService, transport());
  const aborter = new AbortController();
  const doomed = system.ping({ payload: new Uint8Array(1 << 20) }, { signal: aborter.signal });
  aborter.abort();
  await assert.rejects(doomed, refusedWith(Code.Canceled));
  await system.ping({});
});

test("a stranger on TCP", async () => {
  const transport = createGrpcTransport({ baseUrl: `http://${daemon.tcp}`, httpVersion: "2", defaultTimeoutMs: timeoutMs });
  await assert.rejects(createClient(SystemService, transport).ping({}), refusedWith(Code.Unauthenticated));
});
