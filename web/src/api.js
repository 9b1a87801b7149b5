// Requests to the server. Answers are JSON; a failed one carries {"error": "one line for people"}.

export async function read(path) {
    const response = await fetch(path, { headers: { accept: "application/json" } }).catch(() => {
        throw new Error("the server does not answer; retrying");
    });
    if (response.status === 401) location.href = "/login";
    const answer = await response.json().catch(() => null);
    if (!response.ok || !answer)
        throw Object.assign(new Error(answer?.error ?? `the server answered ${response.status}`), {
            status: response.status,
        });
    return answer;
}

export function address(...parts) {
    return "/api/" + parts.map(encodeURIComponent).join("/");
}

export function query(values) {
    const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    return pairs.length ? "?" + pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&") : "";
}
