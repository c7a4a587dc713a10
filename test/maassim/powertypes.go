package maassim

func (c *call) powerTypes() answer { return ok([]any{}) }
