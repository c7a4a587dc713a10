package scrub

import "errors"

// kept makes of a log that tells what is new one that tells all of it at each call.
// Lines that were lost once are lost for good.
func kept(fresh func() ([]string, error)) func() ([]string, error) {
	var all []string
	err := errors.New("nobody opened it")
	if fresh != nil {
		err = nil
	}
	return func() ([]string, error) {
		if err != nil {
			return nil, err
		}
		var more []string
		more, err = fresh()
		all = append(all, more...)
		return all, err
	}
}
