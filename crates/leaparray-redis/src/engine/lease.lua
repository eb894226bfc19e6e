-- Answers an ask. Follows `Ledger::lease`, which says why each step is needed.
-- `time` and `identity` are defined before. All numbers are whole and below 2^53.
--
-- KEYS: mark, charges, last ask of the node
-- ARGV: limit, buckets of the window, microseconds of a bucket, validity of a lease, number of the ask, epoch of its moves
--       (identity, since), wanted permits, validity of the lease that is asked for, and for each move: from, to or -1, count
local limit, n, b, v = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local seq, asked_identity, asked_since = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local want, validity = math.min(tonumber(ARGV[8]), limit), math.min(tonumber(ARGV[9]), v)
local FIRST_MOVE, MAX_MOVES = 10, 64

-- Whole numbers, separated by spaces.
local function parse(stored)
  local found = {}
  for digits in string.gmatch(stored or '', '%d+') do found[#found + 1] = tonumber(digits) end
  return found
end
local function text(...)
  return string.sub(string.format(string.rep('%.0f ', select('#', ...)), ...), 1, -2)
end

-- The mark: identity and start of the epoch, end of the quarantine, highest time, last charged bucket.
local of_identity, since, open, high, charged_to = unpack(parse(redis.call('GET', KEYS[1])))
local now = math.max(time, high or 0)
local k = math.floor(now / b)
local stored = redis.call('HGETALL', KEYS[2])
local is_evicted = #stored == 0 and (charged_to or 0) + n > k
if of_identity ~= identity or is_evicted then
  since, open, charged_to = now, now + (n + v + 1) * b, 0
  if #stored > 0 then redis.call('DEL', KEYS[2]) end
  stored = {}
end

-- The charges: permits by bucket, and the demand for fair shares. `changed` and `dropped` are what to write.
local charges, demand, changed, dropped = {}, {}, {}, {}
for i = 1, #stored, 2 do
  local bucket, count = tonumber(stored[i]), tonumber(stored[i + 1])
  if not bucket then
    demand[stored[i]] = count
  elseif bucket + n > k then
    charges[bucket] = count
  else
    dropped[#dropped + 1] = stored[i]
  end
end
local function charge(bucket, count)
  charges[bucket] = (charges[bucket] or 0) + count
  changed[bucket] = true
end

-- The last ask of the node: its number, start of its epoch, grant and bucket.
local last_seq, last_since, last_granted, last_bucket = unpack(parse(redis.call('GET', KEYS[3])))
local is_new = not last_seq or last_seq < seq
if last_seq and last_seq < seq and asked_identity == identity and asked_since == since then
  for i = FIRST_MOVE, math.min(#ARGV, FIRST_MOVE + 3 * MAX_MOVES) - 2, 3 do
    local from, to, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    count = math.min(count, charges[from] or 0)
    if to <= from and count > 0 then
      charge(from, -count)
      if to >= 0 and to + n > k then charge(to, count) end
    end
  end
end

local charged = 0
for _, count in pairs(charges) do charged = charged + count end
local free = math.max(limit - charged, 0)
local open_in = math.max(open - now, 0)
local bucket = k + validity
local expires = now + (n + v + 2) * b
local granted, retry_in = 0, 0

if is_new then
  if demand.bucket ~= k then
    demand = { bucket = k, free = free, wanted = 0, before = demand.bucket == k - 1 and demand.wanted or 0 }
  end
  demand.wanted = math.min(demand.wanted + want, 2 ^ 52)
  local wanted = math.max(demand.wanted, demand.before)
  local share = want
  if wanted > demand.free then
    share = math.max(math.floor(want * math.floor(demand.free * 4096 / wanted) / 4096), 1)
  end
  if open_in == 0 then granted = math.min(want, free, share) end
  if granted > 0 then
    charge(bucket, granted)
    charged_to = math.max(charged_to, bucket)
  end
  if granted < want then retry_in = open_in > 0 and open_in or (k + 1) * b - now end
  redis.call('SET', KEYS[3], text(seq, since, granted, bucket), 'PX', math.ceil((expires - time) / 1000))
else
  bucket = last_bucket
  if last_seq == seq and last_since == since then granted = last_granted end
end

redis.call('SET', KEYS[1], text(identity, since, open, now, charged_to))
local fields = {}
for name, count in pairs(demand) do
  fields[#fields + 1], fields[#fields + 2] = name, text(count)
end
for at in pairs(changed) do
  if charges[at] > 0 then
    fields[#fields + 1], fields[#fields + 2] = text(at), text(charges[at])
  else
    dropped[#dropped + 1] = text(at)
  end
end
if #dropped > 0 then redis.call('HDEL', KEYS[2], unpack(dropped)) end
-- Never without a field: an absent hash is one that was evicted.
if #fields > 0 then redis.call('HSET', KEYS[2], unpack(fields)) end
redis.call('PEXPIRE', KEYS[2], math.ceil((expires - time) / 1000))
return { identity, since, now, granted, bucket, retry_in, open_in, free - (is_new and granted or 0) }
