#!/usr/bin/env bash
# h2load, beside restarts: runs until the file of the second argument is there. A refused connection is no error;
# a request without a response is, unless COUNTS=wire: over HTTP/2 h2load counts requests as started that it does not
# send, behind a GOAWAY, and the test counts on the wire. Further arguments are h2load's.
set -euo pipefail
at=$1 end=$2
shift 2
answered=0 refused=0
until [[ -e $end ]]; do
  h2load -n 400 -c 4 "$@" "$at" >told 2>&1 || true
  # What it could not begin, as no connection came, it counts as failed too.
  read -r started succeeded < <(sed -nE 's/^requests: .* ([0-9]+) started, .* ([0-9]+) succeeded, .*/\1 \2/p' told)
  [[ ${COUNTS:-} == wire ]] || ((started == succeeded)) || { cat told; exit 1; }
  answered=$((answered + succeeded))
  ((started == 400)) || refused=$((refused + 1))
done
echo "$answered answered, $refused refused"
