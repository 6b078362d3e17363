// Says hello. No libraries, so that it builds without a registry.
const http = require("node:http");

const server = http.createServer((request, response) => {
  response.setHeader("Content-Type", "text/plain; charset=utf-8");
  response.end(`${process.env.GREETING || "Hello"} from Node.js, at ${request.url}\n`);
});
server.listen(Number(process.env.PORT), process.env.HOST || "127.0.0.1", () => console.log("listening"));
process.on("SIGTERM", () => server.close(() => process.exit(0)));
