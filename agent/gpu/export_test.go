package gpu

// KillWith replaces SIGKILL, for a child that it does not reach.
func (h *Helper) KillWith(kill func(group int)) { h.kill = kill }

// DecodeReply and the results' checks are what the parent makes of a child's lines.
func DecodeLine(line []byte) error {
	r, err := decodeReply(line)
	if err != nil || r.Result == nil {
		return err
	}
	var failed error
	for _, into := range []checked{&ScrubResult{}, &ProbeResult{}, &Survey{}, &holderList{}, &State{}, &deviationList{}, &nothing{}} {
		if err := decodeResult(r.Result, into); err != nil {
			failed = err
		}
	}
	return failed
}
