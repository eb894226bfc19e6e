-- Answers an ask. Follows `Ledger::lease`, which says why each step is needed.
-- `time` and `identity` are defined before. All numbers are whole and below 2^53.
--
-- KEYS: mark, charges, last ask of the node, and of a limit of a group the mark of the group
-- ARGV: limit, buckets of the window, microseconds of a bucket, validity of a lease, number and nonce of the ask, epoch of its
--       moves (identity, since), time of the latest answer in it, wanted permits, validity of the lease that is asked for, horizon,
--       weight, and for each move: from, to or -1, count
-- A sum reads the text of a number once, and `tonumber` reads it twice.
local limit, n, b, v, seq, nonce = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local asked_identity, asked_since, seen, want = ARGV[7] + 0, ARGV[8] + 0, ARGV[9] + 0, math.min(ARGV[10] + 0, limit)
local validity, horizon, weight = ARGV[11] + 0, math.min(ARGV[12] + 0, v), math.min(ARGV[13] + 0, limit)
local FIRST_MOVE, MAX_MOVES, FEW_ASKS, MOST_ASKS, SPACING, UNIT, MOST = 14, 64, 64, 1800, 1000, 4096, 2 ^ 52
local pack, unpacked, floor, min, max = cmsgpack.pack, cmsgpack.unpack, math.floor, math.min, math.max
local byte, char = string.byte, string.char
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

-- A list of numbers below 256 is stored as a text with a byte for each, which the server reads and writes with fewer
-- instructions than a list of MessagePack. Other lists are stored as one.
local function listed(it)
  return type(it) == 'string' and { byte(it, 1, -1) } or it
end
local function written(list)
  -- `char` takes an `int` of C, so it would store 2^32 as 0.
  return max(unpack(list)) < 256 and char(unpack(list)) or list
end
-- Returns a list of `count` numbers, from the place `by` + 1 of a list on.
local function shifted(list, by, count)
  local kept = { unpack(list, min(by, #list) + 1) }
  for i = #kept + 1, count do kept[i] = 0 end
  return kept
end
local function total(list, count)
  local sum = 0
  for i = 1, count do sum = sum + list[i] end
  return sum
end

-- The bucket of the last ask. The charges: the permits of each bucket of the window that ends with it, and of those to come in
-- which a lease may end. The permits that begin in each bucket, from the first one of a step that ends with it. The demand: its
-- step, the permits granted and wanted in it, and those wanted in the one before. The nodes that were told to ask again in each
-- bucket to come. The weights of the nodes that lack permits, by the step of their last ask, and of those that wait. The permits of
-- the window that ends now: all charges without those that begin later.
local known_steps, this_step = floor(n / steps), floor(k / steps)
local asked, charges, begins, step, demand_granted, demand, demand_before, due, lacking, waiting = 0, {}, {}, 0, 0, 0, 0, {}, {}, {}
local in_window
if stored then
  -- The charges come first: a version of the script that expects a number there fails, and grants nothing.
  charges, asked, begins, step, demand_granted, demand, demand_before, due, lacking, waiting, in_window = unpacked(stored)
  charges, begins, due, lacking, waiting = listed(charges), listed(begins), listed(due), listed(lacking), listed(waiting)
end
-- The first bucket of the window that ends now.
local oldest = max(k - n + 1, 0)
local is_later = asked ~= k or not stored
if is_later then
  charges = shifted(charges, oldest - max(asked - n + 1, 0), n + v)
  begins = shifted(begins, k - asked, steps + v)
  due = shifted(due, k - asked, n)
  local by = this_step - floor(asked / steps)
  lacking, waiting = shifted(lacking, by, known_steps), shifted(waiting, by, known_steps)
end
if time < now then
  for i = steps + 1, steps + v do begins[i] = 0 end
end
if is_later or time < now then
  in_window = total(charges, n + v) - total(begins, steps + v) + total(begins, steps)
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
      if to >= 1 then charges[to] = charges[to] + count else in_window = in_window - count end
    end
  end
end

-- The most permits that can be used in a window that ends with each bucket from now on, and in any of them.
local used, sum, leaves = { unpack(begins, steps + 1) }, max(in_window, 0), k - n - oldest + 1
local most_used = sum
for i = 1, v do
  sum = sum + used[i] - (charges[leaves + i] or 0)
  if sum < 0 then sum = 0 end
  if sum > most_used then most_used = sum end
  used[i] = sum
end
local free = max(limit - most_used, 0)
local open_in = max(open - now, 0)
local bucket = k + min(validity, v)
local expires = now + (n + v + 2) * b
local granted, retry_in = 0, 0
-- In milliseconds, by the server's clock.
local kept_for = string.format('%.0f', math.ceil((expires - time) / 1000))

if is_new then
  local known = is_known and share or { 0, 0, 0, 0, 0 }
  local at = known[1] - this_step + known_steps
  if lacking[at] then
    lacking[at] = max(lacking[at] - known[2], 0)
    if known[3] == 1 then waiting[at] = max(waiting[at] - known[2], 0) end
  end
  -- Of numbers up to MOST: a sum that is not exact is above it.
  local all, all_waiting = 0, 0
  for i = 1, known_steps do
    all, all_waiting = all + lacking[i], all_waiting + waiting[i]
  end
  if all > MOST then all = MOST end
  if all_waiting > MOST then all_waiting = MOST end
  local most = want
  if all_waiting > 0 then
    local rest = max(pace * steps - total(begins, steps), 0)
    local part = all + weight > 0 and floor(weight * UNIT / (all + weight)) or 0
    most = min(max(floor(rest * part / UNIT), 1), rest)
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
    in_window = in_window + granted
    charged_to = max(charged_to, bucket)
  end

  ahead, share = {}, { this_step, 0, 0, max(known[4], k), known[5] }
  local is_lacking = false
  if granted < want and open_in == 0 then
    share[2], share[3] = weight, horizon > 0 and 1 or 0
    lacking[known_steps] = min(lacking[known_steps] + weight, MOST)
    if horizon > 0 then waiting[known_steps] = min(waiting[known_steps] + weight, MOST) end
    all = min(all + weight, MOST)
    local part, taken, left = floor(weight * UNIT / max(all, 1)), granted, want - granted
    local to, rest, is_highest = share[4], share[5], false
    for from = to + 1, k + min(horizon, n - 1) do
      local i = from - k
      local unused, begun = limit - used[i] - taken, begins[steps + i]
      if unused > 0 and not is_highest then
        -- From here on: in a window that ends with each bucket, or with a later one.
        local highest = 0
        for at = v, i, -1 do
          if used[at] > highest then highest = used[at] else used[at] = highest end
        end
        unused, is_highest = limit - highest - taken, true
      end
      if unused > 0 then begun = begun + unused else unused = 0 end
      if begun > pace then begun = pace end
      rest = rest + begun * part
      if rest >= UNIT then
        local count = min(floor(rest / UNIT), left, unused)
        rest = rest - count * UNIT
        if rest > UNIT then rest = UNIT end
        if count > 0 then
          local last = min(from + validity, k + v)
          charges[last - oldest + 1] = charges[last - oldest + 1] + count
          begins[steps + i] = begins[steps + i] + count
          charged_to = max(charged_to, last)
          taken, left = taken + count, left - count
          local at = #ahead
          ahead[at + 1], ahead[at + 2], ahead[at + 3] = from, last, count
        end
      end
      to = from
    end
    share[4], share[5] = to, rest
    is_lacking = true
  elseif granted < want then
    retry_in = open_in
  end
  local waits, room = horizon > 0, max(floor(limit / n), floor(FEW_ASKS / steps))
  if waits then
    room = min(max(floor(limit * 3 / n / 2), floor(FEW_ASKS / steps)), max(floor(MOST_ASKS * b / 1000000), 1))
  end
  if is_lacking or waits and open_in == 0 and due[steps] >= room then
    local turn = steps
    while turn <= n and due[turn] >= room do turn = turn + 1 end
    if turn > n then
      turn = steps
      for i = steps + 1, n do
        if due[i] < due[turn] then turn = i end
      end
    end
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
stored = pack(written(charges), k, written(begins), step, demand_granted, demand, demand_before, written(due), written(lacking),
  written(waiting), in_window)
redis.call('SET', KEYS[2], stored, 'PX', kept_for)
-- The mark of a limit of a group expires with its charges, and not before them: it is written last.
if KEYS[4] then
  redis.call('SET', KEYS[1], pack(identity, since, open, now, charged_to), 'PX', kept_for)
else
  redis.call('SET', KEYS[1], pack(identity, since, open, now, charged_to))
end
local answer = { identity, since, now, granted, bucket, retry_in, open_in, free - (is_new and granted or 0),
  (is_new or is_same) and 0 or 1, now - time }
for i = 1, #ahead do answer[10 + i] = ahead[i] end
return answer
