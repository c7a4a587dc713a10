package gpu

// KillWith replaces SIGKILL, for a child that it does not reach.
func (h *Helper) KillWith(kill func(group int)) { h.kill = kill }

// DecodeLine is what the parent makes of a line of a child, with the result taken
// for each kind that there is.
func DecodeLine(line []byte) error {
	r, err := decodeReply(line)
	if err != nil || r.Result == nil {
		return err
	}
	var failed error
	for _, into := range []checked{&ScrubResult{}, &ProbeResult{}, &Survey{of: "nvidia"}, &holderList{}, &State{}, &deviationList{}, &nothing{}} {
		if err := decodeResult(r.Result, into); err != nil {
			failed = err
		}
	}
	return failed
}

// CheckScrub is whether a result makes sense.
func CheckScrub(r ScrubResult) error { return r.check() }

// DecodeSurvey takes a survey of one vendor's GPUs.
func DecodeSurvey(vendor, raw string) error {
	return decodeResult([]byte(raw), &Survey{of: vendor})
}
