// From the text of /-/metrics to figures: what each reactor did between two readings.
"use strict";

const Metrics = (() => {
  /** The samples of a text in the Prometheus format, by name. */
  function parse(text) {
    const samples = new Map();
    for (const line of text.split("\n")) {
      const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
      if (!found) continue;
      const labels = {};
      for (const [, name, value] of (found[2] ?? "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
      if (!samples.has(found[1])) samples.set(found[1], []);
      samples.get(found[1]).push({ labels, value: number(found[3]) });
    }
    return samples;
  }

  const number = (text) => (text === "+Inf" ? Infinity : Number(text));

  /** What is used of a reading: totals, and by reactor. */
  function reading(text, at) {
    const samples = parse(text);
    const all = (name) => samples.get(`data_server_${name}`) ?? [];
    const total = (name) => all(name).reduce((sum, sample) => sum + sample.value, 0);
    const reactors = new Map();
    const reactor = (sample) => {
      const id = sample.labels.reactor ?? "0";
      if (!reactors.has(id)) reactors.set(id, { requests: 0, active: 0, buckets: new Map(), lag: new Map() });
      return reactors.get(id);
    };
    for (const sample of all("connections_active")) reactor(sample).active += sample.value;
    for (const sample of all("requests_total")) reactor(sample).requests += sample.value;
    const put = (buckets, { labels, value }) => buckets.set(number(labels.le), (buckets.get(number(labels.le)) ?? 0) + value);
    for (const sample of all("request_duration_seconds_bucket")) put(reactor(sample).buckets, sample);
    for (const sample of all("event_loop_lag_seconds_bucket")) put(reactor(sample).lag, sample);
    return {
      at,
      reactors,
      received: total("received_bytes_total"),
      sent: total("sent_bytes_total"),
      hits: total("cache_hits_total"),
      misses: total("cache_misses_total"),
    };
  }

  /** What happened between two readings; `null` where that is not known. A counter that went back is of a new server. */
  function between(old, now) {
    const seconds = (now.at - old.at) / 1000;
    const rate = (before, after) => (after >= before && seconds > 0 ? (after - before) / seconds : null);
    const reactors = [...now.reactors].map(([id, after]) => {
      const before = old.reactors.get(id) ?? { requests: 0, buckets: new Map(), lag: new Map() };
      const grown = growth(before.buckets, after.buckets);
      const requests = rate(before.requests, after.requests);
      const lag = growth(before.lag, after.lag);
      return { id, requests, active: after.active, grown, lag, p50: quantile(0.5, grown), p99: quantile(0.99, grown) };
    });
    reactors.sort((a, b) => Number(a.id) - Number(b.id));
    const everyone = sum(reactors.map((each) => each.grown));
    const known = reactors.map((each) => each.requests).filter((value) => value !== null);
    const looked = now.hits + now.misses - old.hits - old.misses;
    return {
      reactors,
      requests: known.length > 0 ? known.reduce((a, b) => a + b) : null,
      p50: quantile(0.5, everyone),
      p99: quantile(0.99, everyone),
      lag: quantile(0.99, sum(reactors.map((each) => each.lag))),
      received: rate(old.received, now.received),
      sent: rate(old.sent, now.sent),
      hitRate: looked > 0 && now.hits >= old.hits ? (now.hits - old.hits) / looked : null,
    };
  }

  function growth(before, after) {
    return new Map([...after].map(([limit, count]) => [limit, Math.max(0, count - (before.get(limit) ?? 0))]));
  }

  function sum(all) {
    const whole = new Map();
    for (const buckets of all) for (const [limit, count] of buckets) whole.set(limit, (whole.get(limit) ?? 0) + count);
    return whole;
  }

  /** The quantile of cumulative buckets, by a straight line within one; `null` of nothing. */
  function quantile(q, buckets) {
    const sorted = [...buckets].sort(([a], [b]) => a - b);
    const total = sorted.at(-1)?.[1] ?? 0;
    if (!(total > 0)) return null;
    const rank = q * total;
    let [low, below] = [0, 0];
    for (const [limit, count] of sorted) {
      if (count >= rank) {
        if (limit === Infinity) return low;
        return low + (limit - low) * ((rank - below) / Math.max(1e-9, count - below));
      }
      [low, below] = [limit, count];
    }
    return low;
  }

  return { reading, between };
})();
