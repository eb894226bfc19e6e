-- Answers an ask. Follows `Ledger::lease`, which says why each step is needed.
-- `time` and `identity` are defined before. All numbers are whole and below 2^53.
--
-- KEYS: mark, charges, last ask of the node
-- ARGV: limit, buckets of the window, microseconds of a bucket, validity of a lease, number and nonce of the ask, epoch of its
--       moves (identity, since), wanted permits, validity of the lease that is asked for, and for each move: from, to or -1, count
local limit, n, b, v = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local seq, nonce, asked_identity, asked_since = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local want, validity = math.min(tonumber(ARGV[9]), limit), math.min(tonumber(ARGV[10]), v)
local FIRST_MOVE, MAX_MOVES, FEW_ASKS = 11, 64, 64
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack
-- The buckets of a step: see `LeaseConfig::step`.
local steps = math.max(math.floor(math.min(math.floor(n * b / 10), 100000) / b), 1)

-- Each is false if it is absent.
local mark, stored, last = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))

-- The mark: identity and start of the epoch, end of the quarantine, highest time, last charged bucket.
local of_identity, since, open, high, charged_to
if mark then of_identity, since, open, high, charged_to = unpacked(mark) end
local now = math.max(time, high or 0)
local k = math.floor(now / b)
local is_evicted = not stored and (charged_to or 0) + n > k
if of_identity ~= identity or is_evicted then
  since, open, charged_to, stored = now, now + (n + v + 1) * b, 0, false
end

-- The demand for fair shares: its step, the permits granted in that step, those wanted in it, and in the one before, and the
-- nodes that were told to ask again in each bucket after `asked`, the one of the last ask. The charges: the permits of each
-- bucket of the window that ends with `asked`, and of those to come in which a lease may end.
local demand_step, demand_granted, demand, demand_before, due, asked, charges = 0, 0, 0, 0, {}, 0, {}
if stored then demand_step, demand_granted, demand, demand_before, due, asked, charges = unpacked(stored) end
-- The first bucket of the window that ends now.
local oldest = math.max(k - n + 1, 0)
if asked ~= k or not stored then
  local kept, later, first = {}, {}, math.max(asked - n + 1, 0)
  for i = 1, n + v do kept[i] = charges[i + oldest - first] or 0 end
  for i = 1, n do later[i] = due[i + k - asked] or 0 end
  charges, due = kept, later
end

-- The last ask of the node: its number, nonce, epoch, grant and bucket.
local last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket
if last then last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket = unpacked(last) end
local is_new = not last_seq or last_seq < seq
local is_same = last_seq == seq and last_nonce == nonce
if last_seq and last_seq < seq and asked_identity == identity and asked_since == since then
  for i = FIRST_MOVE, math.min(#ARGV, FIRST_MOVE + 3 * MAX_MOVES) - 2, 3 do
    local from, to = tonumber(ARGV[i]) - oldest + 1, tonumber(ARGV[i + 1]) - oldest + 1
    local count = math.min(tonumber(ARGV[i + 2]), charges[from] or 0)
    if to <= from and count > 0 then
      charges[from] = charges[from] - count
      if to >= 1 then charges[to] = charges[to] + count end
    end
  end
end

local charged = 0
for i = 1, n + v do charged = charged + charges[i] end
local free = math.max(limit - charged, 0)
local open_in = math.max(open - now, 0)
local bucket = k + validity
local expires = now + (n + v + 2) * b
local granted, retry_in = 0, 0
-- In milliseconds, by the server's clock.
local kept_for = math.ceil((expires - time) / 1000)

if is_new then
  local step = math.floor(k / steps)
  if demand_step ~= step then
    demand_before = demand_step == step - 1 and demand or 0
    demand_step, demand_granted, demand = step, 0, 0
  end
  demand = math.min(demand + want, 2 ^ 52)
  local wanted, had = math.max(demand, demand_before), math.min(free + demand_granted, limit)
  local share = want
  if wanted > had then
    share = math.max(math.floor(want * math.floor(had * 4096 / wanted) / 4096), 1)
  end
  if open_in == 0 then granted = math.min(want, free, share) end
  demand_granted = demand_granted + granted
  if granted > 0 then
    local at = bucket - oldest + 1
    charges[at] = charges[at] + granted
    charged_to = math.max(charged_to, bucket)
  end
  if granted < want then
    retry_in = open_in
    if open_in == 0 then
      local room, turn, least = math.max(math.floor(limit / n), math.floor(FEW_ASKS / steps)), nil, steps
      for i = steps, n do
        if due[i] < due[least] then least = i end
        if due[i] < room then
          turn = i
          break
        end
      end
      turn = turn or least
      due[turn] = due[turn] + 1
      retry_in = (k + turn) * b - now
    end
  end
  redis.call('SET', KEYS[3], pack(seq, nonce, identity, since, granted, bucket), 'PX', kept_for)
else
  bucket = last_bucket
  if is_same and last_identity == identity and last_since == since then granted = last_granted end
end

redis.call('SET', KEYS[1], pack(identity, since, open, now, charged_to))
-- Also without a charge: absent charges are ones that were evicted.
redis.call('SET', KEYS[2], pack(demand_step, demand_granted, demand, demand_before, due, k, charges), 'PX', kept_for)
return { identity, since, now, granted, bucket, retry_in, open_in, free - (is_new and granted or 0),
  (is_new or is_same) and 0 or 1, now - time }
