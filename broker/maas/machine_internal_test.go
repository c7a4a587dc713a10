package maas

import "testing"

// Zero is the status New, in which a machine is free: a record without a status must not read as
// New.
func TestAMachineWithoutAStatusIsNotNew(t *testing.T) {
	for raw, read := range map[string]bool{
		`{"system_id": "abc123", "status": 0}`:       true,
		`{"system_id": "abc123", "status": 6}`:       true,
		`{"system_id": "abc123", "status": 23}`:      true, // of a future MAAS: it matches no condition
		`{"system_id": "abc123"}`:                    false,
		`{"system_id": "abc123", "status": null}`:    false,
		`{"system_id": "abc123", "status": "Ready"}`: false,
	} {
		m, ok := machineOf([]byte(raw))
		if ok != read {
			t.Errorf("%s is read: %v, as %+v", raw, ok, m.Status)
		}
	}
}
