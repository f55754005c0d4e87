// A client written with the official TypeScript SDK. It lists, calls, reads, gets
// and completes through the gateway that its arguments name, and prints what it
// saw as JSON: node client.mjs http URL | stdio COMMAND ARGS…
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.NODE_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { ElicitRequestSchema } = await load("types.js");

const [, , way, target, ...args] = process.argv;
const transport = way === "http" ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target, args });
const client = new Client({ name: "typescript", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ada" } }));
await client.connect(transport);

const progress = [];
const tools = (await client.listTools()).tools.map((t) => t.name);
const called = await client.callTool({ name: "mcp__everything__test_tool_with_progress", arguments: {} }, undefined, { onprogress: (p) => progress.push(p.progress) });
const asked = await client.callTool({ name: "mcp__everything__test_input_required_result_elicitation", arguments: {} });
const resources = (await client.listResources()).resources.map((r) => r.uri);
const read = await client.readResource({ uri: "mcp+everything+test://static-text" });
const prompts = (await client.listPrompts()).prompts.map((p) => p.name);
const prompt = await client.getPrompt({ name: "everything__test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } });
const completed = await client.complete({
  ref: { type: "ref/prompt", name: "everything__test_prompt_with_arguments" },
  argument: { name: "arg1", value: "par" },
});
console.log(JSON.stringify({
  tools: tools.length, called: called.content[0].text, progress, asked: asked.content[0].text, resources: resources.length,
  read: read.contents[0].text, uri: read.contents[0].uri, prompts: prompts.length, prompt: prompt.messages[0].content.text,
  completed: completed.completion.values,
}));
await client.close();
