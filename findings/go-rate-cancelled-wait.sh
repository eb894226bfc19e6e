#!/usr/bin/env bash
# golang.org/x/time/rate: the turns of waits that are cancelled stay taken, if others wait after them
#
# Guess: a request that gives up its wait (`Wait` whose context ends, or `Reservation.Cancel`) leaves
# the queue, and the next one takes its turn.
# Behaviour: a turn is given back only if no later one is taken. Of 100 requests that wait for a limit
# of 1/s, all but the first and the last one leave. The last one still waits for 100 s, though no
# request is admitted in 98 of them, and a new one waits for 101 s. If the last 98 leave, from the
# last one on, a new one waits for 3 s.
# Versions: golang.org/x/time 0.3.0, Go 1.19.8 (both of Debian 12). 0.16.0 with Go 1.27.3 (of Debian
# 14) does the same. The mirrors of Debian keep the newest release only: if they no longer have
# these, the script ends with status 2.
# Here: a waiting request of a `WaitQueue` has no permit until its turn, so one that leaves takes
# nothing with it.
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

var now = time.Unix(1_000, 0)

// Returns a limiter of 1/s whose permit is used, and 100 that wait.
func waiting() (*rate.Limiter, []*rate.Reservation) {
	limiter := rate.NewLimiter(1, 1)
	limiter.AllowN(now, 1)
	waits := make([]*rate.Reservation, 100)
	for number := range waits {
		waits[number] = limiter.ReserveN(now, 1)
	}
	return limiter, waits
}

func main() {
	limiter, waits := waiting()
	for number := 1; number < 99; number++ {
		waits[number].CancelAt(now)
	}
	fmt.Println("98 between the first and the last one leave. The last one waits for", waits[99].DelayFrom(now))
	fmt.Println("a new one waits for", limiter.ReserveN(now, 1).DelayFrom(now))
	limiter, waits = waiting()
	for number := 99; number > 1; number-- {
		waits[number].CancelAt(now)
	}
	fmt.Println("the last 98 leave, from the last one on. A new one waits for", limiter.ReserveN(now, 1).DelayFrom(now))
}
END

program() {
  GOROOT=$WORK/root/usr/lib/go-1.19 GOPATH=$WORK/root/usr/share/gocode GOCACHE=$WORK/cache \
    GO111MODULE=off CGO_ENABLED=0 timeout 60 root/usr/lib/go-1.19/bin/go run program.go
}

expect program <<'END'
98 between the first and the last one leave. The last one waits for 1m40s
a new one waits for 1m41s
the last 98 leave, from the last one on. A new one waits for 3s
END
