import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const gateway = process.env.GANTRY_URL ?? "http://127.0.0.1:8084";
const proxied = [
  "/admin",
  "/auth",
  "/v1",
  "/tokenize",
  "/detokenize",
  "/openapi.json",
  "/docs",
  "/livez",
  "/readyz",
  "/health",
];

export default defineConfig({
  base: "/ui/",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: "es2023",
    sourcemap: false,
    // The font files must stay files: the content security policy has no `data:` for fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: {
    // The gateway refuses requests whose `Host` it doesn't know; a loopback address it always knows.
    proxy: Object.fromEntries(proxied.map((path) => [path, { target: gateway, changeOrigin: true }])),
  },
  // `npm run preview` serves the build under the policy that the gateway sends.
  preview: {
    headers: {
      "content-security-policy":
        "default-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; style-src 'self'",
    },
  },
  test: {
    environment: "happy-dom",
    setupFiles: ["src/test/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
  },
});
