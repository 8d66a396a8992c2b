// An attn-server of a test's own; ATTN_BIN is the folder that it is in.
import { spawn } from "node:child_process";
import { once } from "node:events";

const flags = ["--grpc-address=127.0.0.1:0", "--metrics-address=", "--drain-delay=0s"];

// What the log must say before the server can be called.
const serving = /SERVING on ([^,\s]+)[,\s]/;
const page = / page: (http:\S+)\s/;

export class Server {
  // Flags of its own: `--http-address` too, to come back where it was.
  static async start(...own) {
    const server = new Server();
    const http = own.some((flag) => flag.startsWith("--http-address="));
    server.process = spawn(
      `${process.env.ATTN_BIN}/attn-server`,
      [...flags, ...(http ? [] : ["--http-address=127.0.0.1:0"]), ...own],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    server.ended = once(server.process, "exit");
    await server.#ready();
    return server;
  }

  #ready() {
    let log = "";
    return new Promise((resolve, reject) => {
      const read = (text) => {
        log += text;
        const [, address] = serving.exec(log) ?? [];
        const [, url] = page.exec(log) ?? [];
        if (!address || !url) return;
        this.address = address;
        this.url = new URL("/", url).href;
        this.origin = new URL(url).origin;
        resolve();
      };
      this.process.stdout.on("data", read);
      this.process.stderr.on("data", read);
      this.ended.then(() => reject(new Error(`attn-server ended: ${log}`)));
    });
  }

  async stop() {
    this.process.kill("SIGTERM");
    await this.ended;
  }
}
