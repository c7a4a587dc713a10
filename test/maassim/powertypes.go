package maassim

import (
	_ "embed"
	"encoding/json"
)

// describedPowerTypes is what a region of 3.4.10 said of its drivers.
//
//go:embed powertypes.json
var describedPowerTypes []byte

func (c *call) powerTypes() answer { return ok(json.RawMessage(describedPowerTypes)) }
