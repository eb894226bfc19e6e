#!/usr/bin/env bash
# golang.org/x/time/rate: with one request in ten a second late, a limit of 10/s admits all 1,000
#
# Guess: the limiter is for times that its caller gives (`AllowN`), in the order in which requests
# come. An earlier time than the last one adds no tokens; at worst it is decided a little wrong.
# Behaviour: an admitted request sets the limiter's time to its own, also back. The next request then
# adds the tokens of the time between for a second time. So each late request that is admitted pays
# for those after it: with a lateness of a second, a tenth of late requests ends the limit.
# Versions: golang.org/x/time 0.3.0, Go 1.19.8 (both of Debian 12). 0.16.0 with Go 1.27.3 (of Debian
# 14) admits the same. The mirrors of Debian keep the newest release only: if they no longer have
# these, the script ends with status 2.
# Here: a stale time gives no permit twice, in any limiter (the reference, "When a clock steps").
. "$(dirname "$0")/lib.sh"

debian_package golang-1.19-go=1.19.8-2
debian_package golang-1.19-src=1.19.8-2
debian_package golang-golang-x-time-dev=0.3.0-1

cat > program.go <<'END'
package main

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

func main() {
	start := time.Unix(1_000, 0)
	for _, late := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
		limiter, admitted := rate.NewLimiter(10, 10), 0
		// A request each millisecond. Each tenth one has the time at which it was sent.
		for number := 0; number < 1_000; number++ {
			now := start.Add(time.Duration(number) * time.Millisecond)
			if number%10 == 9 {
				now = now.Add(-late)
			}
			if limiter.AllowN(now, 1) {
				admitted++
			}
		}
		fmt.Printf("a tenth is late by %v: %d of 1000 admitted\n", late, admitted)
	}
}
END

program() {
  GOROOT=$WORK/root/usr/lib/go-1.19 GOPATH=$WORK/root/usr/share/gocode GOCACHE=$WORK/cache \
    GO111MODULE=off CGO_ENABLED=0 timeout 60 root/usr/lib/go-1.19/bin/go run program.go
}

expect program <<'END'
a tenth is late by 0s: 19 of 1000 admitted
a tenth is late by 10ms: 20 of 1000 admitted
a tenth is late by 1s: 1000 of 1000 admitted
END
