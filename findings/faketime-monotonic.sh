#!/usr/bin/env bash
# libfaketime: a step of the time sets the monotonic clock back as well
#
# Guess: a faked time is the time of day. CLOCK_MONOTONIC never goes back, so a program under
# libfaketime sees what it would see if an operator or NTP set the time.
# Behaviour: by default, a step shifts CLOCK_MONOTONIC and CLOCK_BOOTTIME too, also back. Such a
# program is tested against steps that no machine has, and a time-out that it has begun is an hour
# away. With FAKETIME_DONT_FAKE_MONOTONIC=1, both clocks stay.
# Version: libfaketime 0.9.10 (of Debian 12). The mirrors of Debian keep the newest release only: if
# they no longer have this one, the script ends with status 2.
# Here: the soak steps the time of day with that setting. `BootClock` reads its clock by a system
# call, which libfaketime does not see.
. "$(dirname "$0")/lib.sh"

debian_package libfaketime=0.9.10-2.1

cat > program.py <<'END'
import os, time
clocks = ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME"]
read = lambda: [time.clock_gettime(getattr(time, clock)) for clock in clocks]
before = read()
with open("new", "w") as file:
    file.write("-3600")
os.replace("new", os.environ["FAKETIME_TIMESTAMP_FILE"])
# In minutes, since the machine may be slow.
print(*(f"{clock} {(now - then) / 60:+.0f} min" for clock, then, now in zip(clocks, before, read())), sep=", ")
END

program() {
  for dont in 0 1; do
    echo +0 > time
    echo "FAKETIME_DONT_FAKE_MONOTONIC=$dont:"
    LD_PRELOAD=$(echo "$WORK"/root/usr/lib/*/faketime/libfaketime.so.1) FAKETIME_TIMESTAMP_FILE=$WORK/time \
      FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=$dont timeout 60 python3 program.py
  done
}

expect program <<'END'
FAKETIME_DONT_FAKE_MONOTONIC=0:
CLOCK_REALTIME -60 min, CLOCK_MONOTONIC -60 min, CLOCK_BOOTTIME -60 min
FAKETIME_DONT_FAKE_MONOTONIC=1:
CLOCK_REALTIME -60 min, CLOCK_MONOTONIC +0 min, CLOCK_BOOTTIME +0 min
END
