# Functions of the findings about VictoriaMetrics. Sourced, not run.
# shellcheck shell=bash
. "$(dirname "$0")/lib.sh"

# The time of the first sample of each series. The others follow each 15 s.
FIRST=1700000000

# Starts VictoriaMetrics 1.79.5 of Debian 12. The mirrors of Debian keep the newest release only: if
# they no longer have this one, the script ends with status 2.
start_victoria_metrics() {
  debian_package victoria-metrics=1.79.5+ds1-2+b5
  local port
  port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
  VICTORIA=http://127.0.0.1:$port
  root/usr/bin/victoria-metrics -httpListenAddr="127.0.0.1:$port" -storageDataPath="$WORK/data" \
    -retentionPeriod=100y -search.disableCache > victoria.log 2>&1 &
  SERVERS+=($!)
  within_a_minute curl --silent --fail --output health "$VICTORIA/health" || cannot "start VictoriaMetrics"
}

# Stores the values of a series: `store NAME VALUE...`.
store() {
  local name=$1 values times
  shift
  values=$(IFS=,; echo "$*")
  times=$(seq -s , "${FIRST}000" 15000 "$((FIRST + 15 * ($# - 1)))000")
  echo "{\"metric\":{\"__name__\":\"$name\"},\"values\":[$values],\"timestamps\":[$times]}" |
    curl --silent --fail --data-binary @- "$VICTORIA/api/v1/import"
  within_a_minute is_stored "$name" || cannot "store $name"
}

is_stored() { [ -n "$(stored "$1")" ]; }

# Prints the values of a series, as they are stored.
stored() {
  curl --silent --fail "$VICTORIA/internal/force_flush"
  curl --silent --fail --get --data-urlencode "match[]=$1" "$VICTORIA/api/v1/export" |
    grep -o '"values":\[[^]]*' | cut -d '[' -f 2
}

# Prints the value of an expression some seconds after the first sample: `query EXPRESSION SECONDS`.
query() {
  curl --silent --fail --get --data-urlencode "query=$1" --data "time=$((FIRST + $2))" \
    "$VICTORIA/api/v1/query" | grep -o '"value":\[[^]]*' | cut -d '"' -f 4
}
