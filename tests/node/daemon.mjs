// A real bermd for the tests of this folder: on a Unix socket and on TCP with its token.
import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const root = resolve(fileURLToPath(import.meta.url), "../../..");
/** Milliseconds for whatever must come; only ever waited for in a failure. */
export const timeoutMs = 1000 * Number(process.env.BERM_TEST_TIMEOUT ?? 60);

export async function startDaemon() {
  const dir = mkdtempSync(join(tmpdir(), "berm-"));
  const socket = join(dir, "sock");
  const log = openSync(join(dir, "log"), "w");
  const child = spawn(
    resolve(root, process.env.BERMD ?? "build/bin/bermd"),
    ["--state", join(dir, "state"), "--socket", socket, "--listen", "127.0.0.1:0"],
    { stdio: ["ignore", log, log] },
  );
  closeSync(log);
  const ended = new Promise((done, failed) => child.on("exit", done).on("error", failed));
  ended.catch(() => {});
  const text = () => readFileSync(join(dir, "log"), "utf8");
  for (const end = Date.now() + timeoutMs; Date.now() < end; ) {
    const tcp = text().match(/msg=listening addr=(127\.0\.0\.1:\d+)/)?.[1];
    if (tcp && text().includes("addr=unix:")) {
      const token = readFileSync(join(dir, "state/token"), "utf8").trim();
      const stop = async () => {
        child.kill("SIGTERM");
        const status = await ended;
        if (status !== 0) throw new Error(`bermd ended with status ${status}: ${text()}`);
        rmSync(dir, { recursive: true });
      };
      return { socket, tcp, token, stop };
    }
    if (child.exitCode !== null || !child.pid) break;
    await sleep(50);
  }
  if (child.pid) child.kill("SIGKILL"); // one that never started has pid 0: that is our own group
  throw new Error(`bermd does not listen: ${text()}`);
}
