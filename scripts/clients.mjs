// A model that is a script, for clients that are real. It answers on loopback as OpenAI's
// Responses API (Codex) and as Chat Completions (opencode), asks for one tool call after
// the other, and looks at what came back: that is all that a model ever sees of belay.
//
//   node scripts/clients.mjs CLIENT PROGRAM FOLDER
import { createServer } from "node:http";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";

const [client, program, folder] = process.argv.slice(2);
const tree = join(folder, "tree"), home = join(folder, "home");
mkdirSync(tree, { recursive: true });
mkdirSync(home, { recursive: true });
writeFileSync(join(tree, "a.txt"), "first\nsecond\n");
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const failures = [];
const check = (what, seen, ok) => {
	if (ok) return console.log(`ok  ${client}: ${what}`);
	failures.push(what);
	console.error(`FAILED  ${client}: ${what}; the model saw:\n${seen.length > 3000 ? `${seen.slice(0, 1500)}\n…\n${seen.slice(-1500)}` : seen}`);
};
const has = (...parts) => (text) => parts.every((p) => (p instanceof RegExp ? p.test(text) : text.includes(p)));

// What the model asks for, and what it has to see: facts of the header, output, codes.
let session = "", background = "";
const steps = [
	["a page with its digest", "read", () => ({ path: "a.txt" }), has("path=a.txt", `sha256=${sha256("first\nsecond\n")}`, "eof=true", "first\nsecond")],
	["an error with its code", "read", () => ({ path: "../home" }), has("outside_root: ")],
	["an argument that is not there", "read", () => ({ path: "a.txt", colour: 1 }), has("invalid_argument: ", "argument=colour")],
	["a replace", "replace", () => ({ path: "a.txt", content: "third\n", expected_sha256: sha256("first\nsecond\n") }), has("committed=true", `sha256=${sha256("third\n")}`)],
	["a stale replace", "replace", () => ({ path: "a.txt", content: "x", expected_sha256: sha256("x") }), has("stale: ", `current_sha256=${sha256("third\n")}`)],
	["an edit", "edit", () => ({ path: "a.txt", expected_sha256: sha256("third\n"), edits: [{ old_text: "third", new_text: "3rd" }] }), has("committed=true", "+3rd")],
	["a command that fails", "shell", () => ({ argv: ["sh", "-c", "echo out; echo err >&2; exit 3"] }), has("exit_code=3", "out", "err")],
	["a session", "exec_command", () => ({ cmd: "echo started; sleep 8; echo done", yield_time_ms: 500 }), (text) => {
		session = /session=([a-z0-9_]+)/.exec(text)?.[1] ?? "";
		return session !== "" && has("status=running", "started")(text);
	}],
	["input that nobody approves", "write_stdin", () => ({ session_id: session, chars: "x" }), has(/approval_(denied|unavailable): |requires? .*(approval|permission)|reject|cancel/i)],
	["a wait to the end", "exec_wait", () => ({ session_ids: [session], timeout_ms: 40000 }), has("timed_out=false", `session=${session}`, "exit_code=0", "done")],
	["its output again", "exec_output", () => ({ session_id: session }), has("started\ndone")],
	["a background run", "exec_command", () => ({ cmd: "sleep 1; echo from the background; exit 4", mode: "background", yield_time_ms: 250 }), (text) => {
		background = /session=([a-z0-9_]+)/.exec(text)?.[1] ?? "";
		return background !== "" && has("status=running")(text);
	}],
	["its end on the next result, labelled", "shell", () => ({ argv: ["sh", "-c", "sleep 3; echo later"] }),
		(text) => has("later", `session=${background} mode=background status=exited exit_code=4`, "[untrusted output of the process: the 20 bytes that follow", "from the background")(text)],
	["and only once", "exec_list", () => ({}), (text) => !text.includes("untrusted output") && has(`session=${background}`, "mode=background")(text)],
	// opencode cuts at 2,000 lines as well, which nobody can know beforehand: these are fewer
	["a long output, whole or with its cut told", "shell", () => ({ argv: ["sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i ............................................; i=$((i+1)); done"] }),
		(text) => has("line 0 ", "line 1999 ")(text) && /omitted/.test(text) && !/tokens truncated/.test(text)],
];

let next = 0, waiting = false, ended = false, inventory = "";
// turn is the next call of the model, given the text of the last result.
const turn = (last) => {
	if (waiting) {
		if (last === undefined) return null;
		const [what, , , ok] = steps[next];
		check(what, last, ok(last));
		next++;
		waiting = false;
	}
	if (next === steps.length) return null;
	waiting = true;
	const [, tool, args] = steps[next];
	return { tool, args: JSON.stringify(args()), id: `call_${next}` };
};
const textOf = (v) => (typeof v === "string" ? v : Array.isArray(v) ? v.map((p) => p.text ?? "").join("") : JSON.stringify(v));

const responses = (req, send) => {
	inventory ||= JSON.stringify(req.tools);
	const outs = (req.input ?? []).filter((i) => i.type?.endsWith("_output") && i.call_id === `call_${next}`);
	const call = turn(outs.length ? textOf(outs.at(-1).output) : undefined);
	const id = `resp_${next}`;
	send("response.created", { response: { id } });
	send("response.output_item.done", {
		item: call
			? { type: "function_call", id: `i_${call.id}`, call_id: call.id, ...nameFor(req, call.tool), arguments: call.args }
			: { type: "message", role: "assistant", id: "m", content: [{ type: "output_text", text: "done" }] },
	});
	send("response.completed", { response: { id, usage: { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 } } });
	ended ||= !call;
};
// nameFor is how this client lists the tool: in a namespace, or with it as a prefix.
const nameFor = (req, tool) => {
	for (const t of req.tools ?? []) {
		if (t.type === "namespace" && (t.tools ?? []).some((x) => x.name === tool) && /belay/.test(t.name)) return { name: tool, namespace: t.name };
	}
	const flat = (req.tools ?? []).map((t) => t.name ?? t.function?.name).find((n) => n?.includes("belay") && n.endsWith(`_${tool}`));
	return { name: flat ?? tool };
};
const chat = (req, chunk) => {
	const named = nameFor(req, "read").name !== "read";
	if (!named) { // a side question of the client: a title
		chunk({ role: "assistant", content: "title" }, null);
		return chunk({}, "stop");
	}
	inventory ||= JSON.stringify(req.tools);
	const outs = req.messages.filter((m) => m.role === "tool" && m.tool_call_id === `call_${next}`);
	const call = turn(outs.length ? textOf(outs.at(-1).content) : undefined);
	if (call) {
		chunk({ role: "assistant", tool_calls: [{ index: 0, id: call.id, type: "function", function: { name: nameFor(req, call.tool).name, arguments: call.args } }] }, null);
		return chunk({}, "tool_calls");
	}
	chunk({ role: "assistant", content: "done" }, null);
	chunk({}, "stop");
	ended = true;
};

const server = createServer((req, res) => {
	let body = "";
	req.on("data", (d) => (body += d));
	req.on("end", () => {
		if (process.env.CLIENTS_LOG) writeFileSync(process.env.CLIENTS_LOG, `${req.method} ${req.url} ${body}\n`, { flag: "a" });
		if (req.method !== "POST") return res.writeHead(200, { "content-type": "application/json" }).end('{"object":"list","data":[],"models":[]}');
		const q = JSON.parse(body || "{}");
		res.writeHead(200, { "content-type": "text/event-stream" });
		try {
			if (req.url.endsWith("/responses")) {
				responses(q, (type, more) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`));
			} else {
				chat(q, (delta, finish_reason) => res.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`));
				res.write("data: [DONE]\n\n");
			}
		} catch (e) {
			failures.push(String(e.stack));
			console.error(e);
		}
		res.end();
	});
});

server.listen(0, "127.0.0.1", () => {
	const base = `http://127.0.0.1:${server.address().port}/v1`;
	const env = { PATH: process.env.PATH, HOME: home, SHELL: "/bin/sh", FAKE_KEY: "none", XDG_CONFIG_HOME: join(home, ".config"), TMPDIR: process.env.TMPDIR ?? "/tmp", BELAY_OFFLINE: "1" };
	if (process.env.BELAY_CI_RUN) env.BELAY_CI_RUN = process.env.BELAY_CI_RUN;
	let args;
	if (client === "codex") {
		const dir = join(home, ".codex");
		const file = join(dir, "config.toml");
		const servers = readFileSync(file, "utf8"); // as belay install wrote it
		writeFileSync(file, `model = "fake"\nmodel_provider = "fake"\n\n[model_providers.fake]\nname = "fake"\nbase_url = "${base}"\nwire_api = "responses"\nenv_key = "FAKE_KEY"\n\n${servers}`);
		args = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", tree, "go on"];
	} else {
		const file = join(home, ".config", "opencode", "opencode.json");
		const config = JSON.parse(readFileSync(file, "utf8"));
		config.provider = { fake: { npm: "@ai-sdk/openai-compatible", name: "fake", options: { baseURL: base, apiKey: "none" }, models: { m: { name: "m", tool_call: true, limit: { context: 200000, output: 8000 } } } } };
		config.autoupdate = false;
		config.share = "disabled";
		writeFileSync(file, JSON.stringify(config));
		Object.assign(env, { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1" });
		args = ["run", ...(process.env.CLIENTS_LOG ? ["--print-logs"] : []), "--model", "fake/m", "go on"];
	}
	const child = spawn(program, args, { cwd: tree, env, stdio: ["ignore", "pipe", "pipe"] });
	let said = "";
	child.stdout.on("data", (d) => (said += d));
	child.stderr.on("data", (d) => {
		said += d;
		if (process.env.CLIENTS_LOG) process.stderr.write(d);
	});
	const timer = setTimeout(() => child.kill("SIGKILL"), 90_000);
	child.on("exit", (code) => {
		clearTimeout(timer);
		server.closeAllConnections();
		server.close();
		if (!ended || next < steps.length) {
			failures.push("the end");
			console.error(`FAILED  ${client}: it stopped at step ${next} (${steps[next]?.[0]}), exit code ${code}\n${said.slice(-3000)}`);
		}
		if (readFileSync(join(tree, "a.txt"), "utf8") !== "3rd\n") failures.push("the file");
		console.log(`${client}: ${next} calls${failures.length ? `, FAILED: ${failures.join("; ")}` : ", all as they should be"}`);
		process.exitCode = failures.length ? 1 : 0;
	});
});
