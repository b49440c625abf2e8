// A worker in another language, with nothing but the API: it claims tickets of an agent, and works on them.
// node worker.mjs BASE TOKEN AGENT NAME LEASE WORK: seconds of the lease, and seconds that the work on a ticket takes.

const [base, token, agent, name, lease, work] = process.argv.slice(2);
const seconds = (count) => new Promise((done) => setTimeout(done, count * 1000));

async function post(path, body) {
  const answer = await fetch(`${base}/api/v1${path}`, {
    method: "POST",
    headers: { "Authorization": `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

function say(what, ticket, more = {}) {
  console.log(JSON.stringify({ what, ticket, by: name, ...more }));
}

async function serve({ ticket, claim, attempt, package: handed }) {
  const about = (verb, body = {}) => post(`/tickets/${ticket.id}/${verb}`, { claim, lease: Number(lease), ...body });
  await about("accept");
  say("accepted", ticket.id, { attempt, task: handed.task.description });
  const beat = setInterval(() => about("heartbeat").then(() => say("heartbeat", ticket.id)), Number(lease) * 300);
  await seconds(work);
  clearInterval(beat);
  await about("complete", { result: `${name} did: ${handed.task.description}` });
  say("completed", ticket.id);
}

say("ready", "");
for (;;) {
  const claims = await post("/claims", { agent, limit: 1, lease: Number(lease), by: name });
  for (const claim of claims) await serve(claim);
  if (!claims.length) await seconds(0.1);
}
