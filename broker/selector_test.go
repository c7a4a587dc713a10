package broker

import "testing"

func TestASelectorMeansWhatItSays(t *testing.T) {
	n := Node{
		ID: "n-aaaa", Hostname: "gpu-07", Site: "dc1", Status: Active,
		Labels: map[string]string{"rack": "b12", "gpu.vendor": "of the label"}, Capabilities: map[string]string{"gpu.vendor": "nvidia", "fabric.type": "nvlink", "env": "prod", "resolver.digest": "sha256:x"},
	}
	for text, want := range map[string]bool{
		"all": true, "n-aaaa": true, "n-bbbb,n-aaaa": true, "n-bbbb": false, "gpu-07": false, "n-aa": false,
		"site=dc1": true, "site=dc2": false, "site=": false, "rack=b12,fabric.type=nvlink": true, "rack=b12,fabric.type=roce": false,
		"gpu.vendor=nvidia": false, "gpu.vendor=of the label": true, "weka=4.3": false, "env=prod": false, "resolver.digest=sha256:x": false, " site=dc1 , status=active ": true,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if s.Matches(n) != want {
			t.Errorf("%q matches: %t", text, !want)
		}
	}
	n.Place = NodePlace{Zone: "az1", Rack: "c07", Unit: 12, Domain: "feed-a"}
	n.Labels["row"] = "of the label"
	for text, want := range map[string]bool{
		"rack=c07,unit=12": true, "domain=feed-a,zone=az1": true, "rack=b12": false, "unit=13": false, "row=of the label": true,
		"room=": false, "row=": false,
	} {
		if s, err := ParseSelector(text); err != nil || s.Matches(n) != want {
			t.Errorf("%q matches a placed node: %t, %v", text, !want, err)
		}
	}
	gone := n
	gone.Status = Deleted
	if s, _ := ParseSelector("all"); s.Matches(gone) {
		t.Error("a deleted node is meant")
	}
}

func TestASelectorThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"", ",", "a,,b", "site=dc1,gpu-07", "=x"} {
		if s, err := ParseSelector(text); AsError(err).Code != "selector_invalid" {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

func TestEqualSelectorsAreWrittenAlike(t *testing.T) {
	for text, want := range map[string]string{"all": "all", "b, a ,b": "a,b", "site=dc1,rack=b": "rack=b,site=dc1"} {
		s, err := ParseSelector(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is written %q, %v", text, s, err)
		}
	}
}
