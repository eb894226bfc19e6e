-- Begins a group whose limits were never used: its quarantine is over now. `time` and `identity` are defined before.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], cmsgpack.pack(identity, time, time))
return 1
