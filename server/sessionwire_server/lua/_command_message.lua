-- The live message about commands, {{id, receipt}, …}: a line for each with its number, status and
-- id. Its reader is live_message.py.
local function command_message(epoch, changed)
  local lines = {'c ' .. epoch .. '\n'}
  for i = 1, #changed do
    local id, receipt = changed[i][1], changed[i][2]
    lines[#lines + 1] = string.format('%.0f ', receipt.n) .. receipt.status .. ' ' .. id .. '\n'
  end
  return table.concat(lines)
end
