package gpu

// KillWith replaces SIGKILL, for a child that SIGKILL does not reach.
func (h *Helper) KillWith(kill func(group int)) { h.kill = kill }

// DecodeLine is the parent's view of a child's line, with the result decoded as each kind in turn.
func DecodeLine(line []byte) error {
	r, err := decodeReply(line)
	if err != nil || r.Result == nil {
		return err
	}
	var failed error
	for _, into := range []checked{&ScrubResult{}, &ProbeResult{}, &Survey{vendor: "nvidia"}, &holderList{}, &State{}, &deviationList{}, &noResult{}} {
		if err := decodeResult(r.Result, into); err != nil {
			failed = err
		}
	}
	return failed
}

// CheckScrub checks a result for plausibility.
func CheckScrub(r ScrubResult) error { return r.check() }

// DecodeSurvey decodes a survey of a vendor's GPUs.
func DecodeSurvey(vendor, raw string) error {
	return decodeResult([]byte(raw), &Survey{vendor: vendor})
}
