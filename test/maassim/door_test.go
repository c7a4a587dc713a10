package maassim_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/maassim"
)

// atDoor sends a request to the door.
func atDoor(t *testing.T, r *maassim.Region, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.Door().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func TestHardwareIsMendedFromOutside(t *testing.T) {
	r, _, _ := start(t, "3.6")
	box := maassim.Box(1)
	boss := box.Disks[2]
	box.Disks = box.Disks[:2]
	r.PlugIn(box)
	at := "/sim/hardware/" + box.BMC.Address
	if _, rack := atDoor(t, r, "GET", "/sim/hardware", ""); !strings.Contains(rack, box.Serial) || strings.Contains(rack, boss.Serial) || strings.Contains(rack, box.BMC.Password) {
		t.Errorf("the rack is %s", rack)
	}
	disk := `{"Name":"` + boss.Name + `","Model":"DELLBOSS VD","Serial":"` + boss.Serial + `","Size":480036519936}`
	for range 2 { // a disk put in twice is listed once
		if code, text := atDoor(t, r, "POST", at+"/disks", disk); code != http.StatusNoContent {
			t.Errorf("%d %s", code, text)
		}
	}
	if _, rack := atDoor(t, r, "GET", "/sim/hardware", ""); strings.Count(rack, boss.Serial) != 1 {
		t.Errorf("mended, the rack is %s", rack)
	}
	atDoor(t, r, "DELETE", at+"/disks/"+boss.Name, "")
	if _, rack := atDoor(t, r, "GET", "/sim/hardware", ""); strings.Contains(rack, boss.Serial) {
		t.Errorf("with the disk taken out again, the rack is %s", rack)
	}
	if code, _ := atDoor(t, r, "POST", at+"/pxe", ""); code != http.StatusNoContent {
		t.Errorf("booting it from the network: %d", code)
	}
}

func TestTheDoorRefusesWhatMakesNoSense(t *testing.T) {
	r, _, _ := start(t, "3.6")
	r.PlugIn(maassim.Box(1))
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/sim/hardware/10.0.0.9/disks", `{"Name":"sda","Serial":"S","Size":1}`, 404},
		{"POST", "/sim/hardware/10.9.0.1/disks", `{"Name":"sda"}`, 400},
		{"POST", "/sim/hardware/10.9.0.1/disks", `{"Colour":"red"}`, 400},
		{"POST", "/sim/hardware/10.9.0.1/disks", `[`, 400},
		{"DELETE", "/sim/hardware/10.0.0.9/disks/sda", "", 404},
		{"POST", "/sim/hardware/10.0.0.9/pxe", "", 404},
		{"POST", "/sim/faults", `{"Kind":"boredom"}`, 400},
		{"GET", "/sim/", "", 404},
		{"PUT", "/sim/faults", "", 405},
	} {
		if code, text := atDoor(t, r, c.method, c.path, c.body); code != c.code {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, code, text, c.code)
		}
	}
}

func TestTroubleIsMadeAndTakenBackFromOutside(t *testing.T) {
	r, _, _ := start(t, "3.6")
	version := func() int {
		req := httptest.NewRequest("GET", "/MAAS/api/2.0/version/", nil)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	atDoor(t, r, "POST", "/sim/faults", `{"Kind":"503 before the change","Times":-1}`)
	if code := version(); code != http.StatusServiceUnavailable {
		t.Errorf("in trouble it answers %d", code)
	}
	atDoor(t, r, "DELETE", "/sim/faults", "")
	if code := version(); code != http.StatusOK {
		t.Errorf("out of trouble it answers %d", code)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/sim/hardware", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a region without a door answers there with %d", w.Code)
	}
}
