// Tests that the compiled package can be imported and exports every public name.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as berm from "../dist/index.js";
import * as pb from "../dist/gen/berm/v1/berm_pb.js";

const rows = [
  ...readFileSync(new URL("../../../src/base/errors.def", import.meta.url), "utf8").matchAll(
    /^ERR\((\w+), *(\d+)/gm,
  ),
];

test("every failure has a class", () => {
  assert.ok(rows.length > 0);
  for (const [, name, number] of rows) {
    const kind = berm.classOf(name);
    assert.notEqual(kind, berm.BermError, name);
    assert.equal(kind.reason, name);
    assert.equal(kind.number, Number(number));
    const error = new kind("text");
    assert.ok(error instanceof berm.BermError);
    assert.equal(error.message, "text");
    assert.equal(error.name, kind.name);
  }
});

test("an unknown reason is a BermError that keeps its name", () => {
  assert.equal(berm.classOf("NO_SUCH_REASON"), berm.BermError);
  assert.equal(new berm.BermError("", { reason: "NO_SUCH_REASON" }).reason, "NO_SUCH_REASON");
});

test("exported names", () => {
  const classes = rows.map(([, name]) =>
    name.split("_").map((w) => w[0] + w.slice(1).toLowerCase()).join("") + "Error");
  assert.deepEqual(Object.keys(berm).sort(), [...classes, "BermError", "classOf"].sort());
});

test("services", () => {
  for (const name of ["SandboxService", "ExecService", "FileService", "SystemService"])
    assert.equal(pb[name].typeName, `berm.v1.${name}`);
});
