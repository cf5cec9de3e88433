import { defineConfig } from "vitest/config";

// The server under development, for `npm run dev`.
const server = process.env.HETEROSERVE_URL ?? "http://127.0.0.1:8080";
const proxied = ["/v1", "/admin", "/debug", "/health", "/ready", "/version", "/metrics", "/tokenize"];

export default defineConfig({
  build: {
    outDir: process.env.WEB_OUT ?? "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no inline script or style
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        // The server keeps files for ever whose names end in a hexadecimal hash.
        hashCharacters: "hex",
        entryFileNames: "assets/[name].[hash:10].js",
        chunkFileNames: "assets/[name].[hash:10].js",
        assetFileNames: "assets/[name].[hash:10][extname]",
      },
    },
  },
  server: {
    proxy: Object.fromEntries(proxied.map((path) => [path, { target: server, changeOrigin: true }])),
  },
  test: { include: ["src/**/*.test.ts"] },
});
