-- The twin of `gantry_domain::limit::gcra::charge`; a test feeds the same traces to both.
local function charge(tat, now, cost)
    if cost < 0 then
        return math.max(tat + cost, 0)
    end
    return math.max(tat, now) + cost
end
