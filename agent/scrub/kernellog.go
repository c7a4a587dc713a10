package scrub

import "errors"

// kept turns a function that returns new log lines into one that returns all lines at each call.
// Once lines are lost, every later call returns the error.
func kept(fresh func() ([]string, error)) func() ([]string, error) {
	var all []string
	err := errors.New("it was not opened")
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
