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
    // One style sheet: that of the charts is too small to be a request of its own, and to be lost.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        // Few parts: each is a request, and one more that can be lost. Without these groups every icon that two pages show is one.
        codeSplitting: {
          groups: [
            // All texts at once: pages don't wait for theirs one after the other.
            { name: "german", test: /[\\/]de\.ts$/, priority: 4 },
            // What the shell needs; its libraries stay in the browser's cache when only our own code changes.
            { name: "libraries", test: /[\\/]node_modules[\\/]/, tags: ["$initial"], priority: 3 },
            { name: "index", tags: ["$initial"], priority: 2 },
            // What several pages need. Each page is one more part.
            { name: "shared", test: /^(?!.*[\\/]src[\\/]pages[\\/])/, minShareCount: 2, priority: 1 },
          ],
        },
      },
    },
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
    // Nothing is said about how fast the machine is: beside other work a test may take ten times as long.
    testTimeout: 90_000,
    setupFiles: ["src/test/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
  },
});
