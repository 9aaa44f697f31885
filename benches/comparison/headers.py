"""The fields that users' requests carry besides Host: those of a proxy, of a traced service and of a browser."""

PROXY = (
    "X-Forwarded-For: 203.0.113.7, 10.1.4.22",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: values.example.com",
    "X-Real-IP: 203.0.113.7",
    "User-Agent: python-requests/2.32.3",
    "Accept: */*",
)

TRACE = (
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate: rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    "User-Agent: Go-http-client/1.1",
    "Accept-Encoding: gzip",
)

# What Chrome sends for a fetch() of the page's own origin: fifteen fields with Host.
BROWSER = (
    "Connection: keep-alive",
    'sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"',
    "sec-ch-ua-mobile: ?0",
    'sec-ch-ua-platform: "Linux"',
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    "Accept: */*",
    "DNT: 1",
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Mode: cors",
    "Sec-Fetch-Dest: empty",
    "Referer: https://values.example.com/reports/2026/summary.html",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Language: en-GB,en;q=0.9,de;q=0.8",
    "Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; _ga=GA1.2.1189472341.1763796000; consent=all",
)
