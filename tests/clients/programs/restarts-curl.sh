#!/usr/bin/env bash
# curl, beside restarts: stores and reads until the file of the second argument is there. A refused connection (7) is no error.
set -euo pipefail
answered=0 refused=0
until [[ -e $2 ]]; do
  value="value $answered" code=0
  # Two transfers on one connection.
  read=$(curl --fail-early -sS -f -o /dev/null -X PUT -d "$value" "$1/curl" --next -sS -f "$1/curl" 2>error) || code=$?
  case $code in
    0) [[ $read == "$value" ]] || { echo "read $read, not $value"; exit 1; }; answered=$((answered + 2)) ;;
    7) refused=$((refused + 1)) ;;
    *) echo "after $answered responses: $(<error)"; exit 1 ;;
  esac
done
echo "$answered answered, $refused refused"
