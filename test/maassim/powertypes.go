package maassim

import (
	_ "embed"
	"encoding/json"
)

// describedPowerTypes is a 3.4.10 region's answer about its power drivers.
//
//go:embed powertypes.json
var describedPowerTypes []byte

func (c *call) powerTypes() answer { return ok(json.RawMessage(describedPowerTypes)) }
