-- One exchange between a gateway and the others. Times are microseconds of the server's clock, so that clocks of
-- gateways do not matter.
--
-- KEYS[1]        sorted set: gateways by when they were last heard of
-- KEYS[2..]      one hash for each account: `requests` and `tokens` are theoretical arrival times, and each gateway has a
--                field `g:<gateway>` = "<running> <streams> <when>" while it has requests running
-- ARGV[1], [2]   this gateway; after how many microseconds of silence a gateway is forgotten
-- ARGV[3..]      four for each account: cost of requests and of tokens since the last exchange (nanoseconds of their
--                limits, may be negative), running requests and streams
-- Returns the number of gateways, then four for each account: how far both limits are spent (microseconds), and what
-- runs on the other gateways.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local gateway, forget = ARGV[1], tonumber(ARGV[2])
local own = 'g:' .. gateway

-- Lua writes large numbers with 14 digits unless told otherwise.
local function digits(number)
    return string.format('%.3f', number)
end

redis.call('ZADD', KEYS[1], string.format('%.0f', now), gateway)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - forget))
redis.call('PEXPIRE', KEYS[1], math.ceil(forget / 1000))

local answer = { redis.call('ZCARD', KEYS[1]) }
for account = 2, #KEYS do
    local key, first = KEYS[account], 3 + (account - 2) * 4
    local tats, running, streams = { requests = 0, tokens = 0 }, 0, 0
    local fields = redis.call('HGETALL', key)
    for at = 1, #fields, 2 do
        local name, value = fields[at], fields[at + 1]
        if tats[name] then
            tats[name] = tonumber(value)
        elseif name ~= own then
            local requests, streaming, seen = string.match(value, '^(%d+) (%d+) (%d+)$')
            if not seen or tonumber(seen) + forget < now then
                redis.call('HDEL', key, name)
            else
                running = running + tonumber(requests)
                streams = streams + tonumber(streaming)
            end
        end
    end
    local requests = charge(tats.requests, now, tonumber(ARGV[first]) / 1000)
    local tokens = charge(tats.tokens, now, tonumber(ARGV[first + 1]) / 1000)
    redis.call('HSET', key, 'requests', digits(requests), 'tokens', digits(tokens))
    if tonumber(ARGV[first + 2]) > 0 then
        redis.call('HSET', key, own,
            string.format('%d %d %.0f', ARGV[first + 2], ARGV[first + 3], now))
    else
        redis.call('HDEL', key, own)
    end
    local ahead = math.max(requests - now, tokens - now, forget)
    redis.call('PEXPIRE', key, math.ceil(ahead / 1000) + 60000)
    answer[#answer + 1] = math.ceil(math.max(requests - now, 0))
    answer[#answer + 1] = math.ceil(math.max(tokens - now, 0))
    answer[#answer + 1] = running
    answer[#answer + 1] = streams
end
return answer
