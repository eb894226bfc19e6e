-- Answers an ask. Follows `Ledger::lease`, which says why each step is needed.
-- `time` and `identity` are defined before. All numbers are whole and below 2^53.
--
-- KEYS: mark, charges, last ask of the node, and of a limit of a group the mark of the group
-- ARGV: limit, buckets of the window, microseconds of a bucket, validity of a lease, number and nonce of the ask, epoch of its
--       moves (identity, since), time of the latest answer in it, wanted permits, validity of the lease that is asked for, horizon,
--       weight, and for each move: from, to or -1, count
local limit, n, b, v = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local seq, nonce, asked_identity, asked_since = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local seen, want, validity = tonumber(ARGV[9]), math.min(tonumber(ARGV[10]), limit), tonumber(ARGV[11])
local horizon, weight = math.min(tonumber(ARGV[12]), v), math.min(tonumber(ARGV[13]), limit)
local FIRST_MOVE, MAX_MOVES, FEW_ASKS, MOST_ASKS, SPACING, UNIT, MOST = 14, 64, 64, 1800, 250, 4096, 2 ^ 52
local pack, unpacked, floor, min, max = cmsgpack.pack, cmsgpack.unpack, math.floor, math.min, math.max
-- The buckets of a step: see `LeaseConfig::step`. The permits of a bucket if the limit is used evenly.
local steps, pace = max(floor(min(floor(n * b / 10), 100000) / b), 1), math.ceil(limit / n)

-- Each is false if it is absent.
local mark, stored, last = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))

-- The mark: identity and start of the epoch, end of the quarantine, highest time, last charged bucket.
local of_identity, since, open, high, charged_to
if mark then of_identity, since, open, high, charged_to = unpacked(mark) end
-- The mark of the group: its identity, the end of its quarantine, and the highest time, less up to a bucket.
local group, of_group, group_open, group_high = KEYS[4] and redis.call('GET', KEYS[4])
if group then of_group, group_open, group_high = unpacked(group) end
local now = max(time, high or 0, group_high or 0)
local k = floor(now / b)
-- The last ask of the node: its number, nonce, epoch, grant and bucket, the grants ahead, its share, and its time.
local last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket, ahead, share, last_time
if last then last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket, ahead, share, last_time = unpacked(last) end
local is_lost = of_identity ~= identity
-- The mark of a limit of a group expires last, so it was evicted if it alone is not there.
local is_torn = not mark and (stored or last)
local is_evicted = not is_lost and not stored and charged_to + n > k
local is_forgotten = seen > 0 and time < seen + (n + v + 1) * b and (last_time or 0) < seen
  and asked_identity == identity and asked_since >= (since or 0)
local shut = now + (n + v + 1) * b
if KEYS[4] and (of_group ~= identity or now >= group_high + b) then
  if of_group ~= identity then group_open = shut end
  redis.call('SET', KEYS[4], pack(identity, group_open, now))
end
if is_lost or is_evicted or is_forgotten then
  since, open, charged_to, stored = now, is_lost and not is_torn and not is_forgotten and group_open or shut, 0, false
end

-- The bucket of the last ask. The charges: the permits of each bucket of the window that ends with it, and of those to come in
-- which a lease may end. The permits that begin in each bucket, from the first one of a step that ends with it. The demand: its
-- step, the permits granted and wanted in it, and those wanted in the one before. The nodes that were told to ask again in each
-- bucket to come. The weights of the nodes that lack permits, by the step of their last ask, and of those that wait.
local asked, charges, begins, step, demand_granted, demand, demand_before, due, lacking, waiting = 0, {}, {}, 0, 0, 0, 0, {}, {}, {}
if stored then asked, charges, begins, step, demand_granted, demand, demand_before, due, lacking, waiting = unpacked(stored) end
-- Returns a list of `count` numbers, from the place `by` + 1 of a list on.
local function shifted(list, by, count)
  local kept = {}
  for i = 1, count do kept[i] = list[i + by] or 0 end
  return kept
end
-- The first bucket of the window that ends now.
local oldest = max(k - n + 1, 0)
local known_steps, this_step = floor(n / steps), floor(k / steps)
if asked ~= k or not stored then
  charges = shifted(charges, oldest - max(asked - n + 1, 0), n + v)
  begins = shifted(begins, k - asked, steps + v)
  due = shifted(due, k - asked, n)
  local by = this_step - floor(asked / steps)
  lacking, waiting = shifted(lacking, by, known_steps), shifted(waiting, by, known_steps)
end
if time < now then
  for i = steps + 1, steps + v do begins[i] = 0 end
end

local is_new = not last_seq or last_seq < seq
local is_same = last_seq == seq and last_nonce == nonce
local is_known = last_identity == identity and last_since == since
if last_seq and last_seq < seq and asked_identity == identity and asked_since == since then
  for i = FIRST_MOVE, min(#ARGV, FIRST_MOVE + 3 * MAX_MOVES) - 2, 3 do
    local from, to = tonumber(ARGV[i]) - oldest + 1, tonumber(ARGV[i + 1]) - oldest + 1
    local count = min(tonumber(ARGV[i + 2]), charges[from] or 0)
    if to <= from and count > 0 then
      charges[from] = charges[from] - count
      if to >= 1 then charges[to] = charges[to] + count end
    end
  end
end

-- The most permits that can be used in a window that ends with each bucket from now on, or with a later one.
local used, sum = {}, 0
for i = 1, n + v do sum = sum + charges[i] end
for i = steps + 1, steps + v do sum = sum - begins[i] end
used[0] = max(sum, 0)
for i = 1, v do
  used[i] = max(used[i - 1] + begins[steps + i] - (charges[k + i - n - oldest + 1] or 0), 0)
end
for i = v, 1, -1 do used[i - 1] = max(used[i - 1], used[i]) end
local free = max(limit - used[0], 0)
local open_in = max(open - now, 0)
local bucket = k + min(validity, v)
local expires = now + (n + v + 2) * b
local granted, retry_in = 0, 0
-- In milliseconds, by the server's clock.
local kept_for = math.ceil((expires - time) / 1000)

if is_new then
  local known = is_known and share or { 0, 0, 0, 0, 0 }
  local at = known[1] - this_step + known_steps
  if lacking[at] then
    lacking[at] = max(lacking[at] - known[2], 0)
    if known[3] == 1 then waiting[at] = max(waiting[at] - known[2], 0) end
  end
  local all, all_waiting = 0, 0
  for i = 1, known_steps do
    all, all_waiting = min(all + lacking[i], MOST), min(all_waiting + waiting[i], MOST)
  end
  local most = want
  if all_waiting > 0 then
    local rest = pace * steps
    for i = 1, steps do rest = rest - begins[i] end
    rest = max(rest, 0)
    most = min(max(floor(rest * floor(weight * UNIT / max(all + weight, 1)) / UNIT), 1), rest)
  end

  if step ~= this_step then
    demand_before = step == this_step - 1 and demand or 0
    step, demand_granted, demand = this_step, 0, 0
  end
  demand = min(demand + want, MOST)
  local wanted, had = max(demand, demand_before), min(free + demand_granted, limit)
  local part = want
  if wanted > had then
    part = max(floor(want * floor(had * UNIT / wanted) / UNIT), 1)
  end
  if open_in == 0 then granted = min(want, free, part, most) end
  demand_granted = demand_granted + granted
  if granted > 0 then
    local at = bucket - oldest + 1
    charges[at] = charges[at] + granted
    begins[steps] = begins[steps] + granted
    charged_to = max(charged_to, bucket)
  end

  ahead, share = {}, { this_step, 0, 0, max(known[4], k), known[5] }
  local is_lacking = false
  if granted < want and open_in == 0 then
    share[2], share[3] = weight, horizon > 0 and 1 or 0
    lacking[known_steps] = min(lacking[known_steps] + weight, MOST)
    if horizon > 0 then waiting[known_steps] = min(waiting[known_steps] + weight, MOST) end
    all = 0
    for i = 1, known_steps do all = min(all + lacking[i], MOST) end
    local part, taken, left = floor(weight * UNIT / max(all, 1)), granted, want - granted
    for from = share[4] + 1, k + min(horizon, n - 1) do
      local i = from - k
      local unused = max(limit - used[i] - taken, 0)
      local owed = share[5] + min(unused + begins[steps + i], pace) * part
      local count = min(floor(owed / UNIT), left, unused)
      share[4], share[5] = from, min(owed - count * UNIT, UNIT)
      if count > 0 then
        local to = min(from + validity, k + v)
        charges[to - oldest + 1] = charges[to - oldest + 1] + count
        begins[steps + i] = begins[steps + i] + count
        charged_to = max(charged_to, to)
        taken, left = taken + count, left - count
        for _, number in ipairs({ from, to, count }) do ahead[#ahead + 1] = number end
      end
    end
    is_lacking = true
  elseif granted < want then
    retry_in = open_in
  end
  local waits, room = horizon > 0, max(floor(limit / n), floor(FEW_ASKS / steps))
  if waits then
    room = min(max(floor(limit * 3 / n / 2), floor(FEW_ASKS / steps)), max(floor(MOST_ASKS * b / 1000000), 1))
  end
  if is_lacking or waits and open_in == 0 and due[steps] >= room then
    local turn, least = nil, steps
    for i = steps, n do
      if due[i] < due[least] then least = i end
      if due[i] < room then
        turn = i
        break
      end
    end
    turn = turn or least
    retry_in = (k + turn) * b + due[turn] % room * min(SPACING, floor(b / room)) - now
    due[turn] = due[turn] + 1
  end
  last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket = seq, nonce, identity, since, granted, bucket
end
if is_new or is_same then
  local last = pack(last_seq, last_nonce, last_identity, last_since, last_granted, last_bucket, ahead, share, now)
  redis.call('SET', KEYS[3], last, 'PX', kept_for)
end
if not is_new then
  bucket = last_bucket
  if is_same and is_known then granted = last_granted else ahead = {} end
end

-- Also without a charge: absent charges are ones that were evicted.
redis.call('SET', KEYS[2], pack(k, charges, begins, step, demand_granted, demand, demand_before, due, lacking, waiting), 'PX', kept_for)
-- The mark of a limit of a group expires with its charges, and not before them: it is written last.
if KEYS[4] then
  redis.call('SET', KEYS[1], pack(identity, since, open, now, charged_to), 'PX', kept_for)
else
  redis.call('SET', KEYS[1], pack(identity, since, open, now, charged_to))
end
local answer = { identity, since, now, granted, bucket, retry_in, open_in, free - (is_new and granted or 0),
  (is_new or is_same) and 0 or 1, now - time }
for _, number in ipairs(ahead) do answer[#answer + 1] = number end
return answer
