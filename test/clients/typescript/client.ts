// Asks a broker with the types that openapi-typescript makes of its description.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { env: Record<string, string | undefined> };

const broker = createClient<paths>({
  baseUrl: process.env["HOSTLER_URL"] ?? "",
  headers: { Authorization: `Bearer ${process.env["HOSTLER_TOKEN"]}` },
});

const nodes = await broker.GET("/api/v1/admin/nodes");
if (nodes.error) throw new Error(`cannot list nodes: ${nodes.error.detail}`);
for (const node of nodes.data.items) console.log("node", node.hostname);

const profile = await broker.GET("/api/v1/admin/maas-sites/{site}/profiles/{profile}", {
  params: { path: { site: "dc1", profile: "default" } },
});
if (profile.error) throw new Error(`cannot show a profile: ${profile.error.detail}`);
const vlan: number | null | undefined = profile.data.pxe_vlan_vid;
console.log("vlan", vlan ?? "none");

const missing = await broker.GET("/api/v1/admin/nodes/{node}", { params: { path: { node: "h9" } } });
console.log("refused", missing.error?.code);
