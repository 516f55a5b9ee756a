// Asks a gateway for short answers at a steady pace until its input ends, then prints the time of each as JSON: when it was due, in
// milliseconds since 1970, and how long after that it was answered. A process of its own, so that what measures pages does not
// delay it. Arguments: the gateway, the token of a key, the name of a model.
import { Agent, request } from "node:http";

const [url, token, model] = process.argv.slice(2);
const PER_SECOND = 100;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const body = JSON.stringify({ model, max_tokens: 4, messages: [{ role: "user", content: "Hello" }] });
const headers = {
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  "content-length": body.length,
};
const now = () => performance.timeOrigin + performance.now();

/** Returns when the answer has ended. */
const ask = () =>
  new Promise((done, failed) => {
    const asked = request(`${url}/v1/chat/completions`, { agent, method: "POST", headers }, (answer) => {
      if (answer.statusCode !== 200) failed(new Error(`the gateway answered ${answer.statusCode}`));
      answer.resume().on("end", done);
    });
    asked.on("error", failed).end(body);
  });

const samples = [];
const began = now();
let sent = 0;
const timer = setInterval(() => {
  // By the clock: what was due while a timer was late counts from when it was due.
  for (; began + (sent * 1000) / PER_SECOND <= now(); sent += 1) {
    const due = began + (sent * 1000) / PER_SECOND;
    ask().then(
      () => samples.push([due, now() - due]),
      (error) => {
        console.error(String(error));
        process.exit(1);
      },
    );
  }
}, 2);
process.stdin.resume().on("end", () => {
  clearInterval(timer);
  setTimeout(() => process.stdout.write(JSON.stringify(samples), () => process.exit()), 1000);
});
