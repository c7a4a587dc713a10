package broker

import (
	"fmt"
	"strings"
	"testing"
)

func TestAnExplanationCountsNodesByReason(t *testing.T) {
	s := NewSKU()
	s.ID, s.Offer.Sites = "h100", []string{"dc1", "dc2"}
	node := func(id, site string, codes ...string) JudgedNode {
		n := JudgedNode{ID: id, Hostname: "h-" + id, Site: site}
		for _, c := range codes {
			n.Reasons = append(n.Reasons, Reason{Code: c, Next: "mend " + c + " of " + id})
		}
		return n
	}
	nodes := []JudgedNode{
		node("n-1", "dc1"), node("n-2", "dc1", "device_missing", "device_missing", "frozen"),
		node("n-3", "dc2"), node("n-4", "dc2"), node("n-5", "dc2", "frozen"), node("n-6", "dc3"),
	}
	ask := func(count int, site string) Explanation {
		return Explain(s, AllocationRequest{SKU: "h100", Nodes: count, Site: site}, nodes, Kept{}, Project{})
	}
	e := ask(1, "")
	if e.Fit != 3 || e.DoNotFit != 3 || e.Site != "dc1" || e.Refusal != nil || fmt.Sprint(e.Sites) != "[{dc1 1 1} {dc2 2 1} {dc3 0 1}]" {
		t.Errorf("%+v", e)
	}
	var codes []string
	for _, r := range e.Reasons {
		codes = append(codes, fmt.Sprint(r.Code, r.Nodes))
	}
	if got := strings.Join(codes, " "); got != "frozen2 device_missing1 site_not_offered1" || e.Reasons[0].Examples[1] != (ExplainedNode{"n-5", "h-n-5", "dc2", "mend frozen of n-5"}) {
		t.Errorf("%s: %+v", got, e.Reasons)
	}
	if e := ask(2, ""); e.Site != "dc2" || e.Refusal != nil {
		t.Errorf("%+v", e)
	}
	if e := ask(3, ""); e.Site != "" || e.Refusal.Code != "sku_unavailable" || !strings.Contains(e.Refusal.Message, "dc1 has 1, dc2 has 2, dc3 has 0") {
		t.Errorf("%+v", e)
	}
	if e := ask(1, "dc3"); e.Refusal == nil || !strings.Contains(e.Refusal.Message, "not offered at dc3") {
		t.Errorf("%+v", e)
	}
	s.Offer.Images = []string{"noble", "custom/rocm"}
	nodes[0].Image, nodes[2].Image = "custom/rocm", "ubuntu/noble"
	for image, want := range map[string]string{"noble": "[{dc1 0 2} {dc2 1 2} {dc3 0 1}]", "custom/rocm": "[{dc1 1 1} {dc2 0 3} {dc3 0 1}]"} {
		e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1, Image: image}, nodes, Kept{}, Project{})
		if got := fmt.Sprint(e.Sites); got != want || e.Refusal != nil {
			t.Errorf("%s: %s, %v, want %s", image, got, e.Refusal, want)
		}
		if r := e.Reasons[0]; r.Code != "image_not_installed" || r.Nodes != 5 || !strings.Contains(r.Examples[4].Next, "ask without an image") {
			t.Errorf("%s: %+v", image, r)
		}
	}
	nodes[1].Installable, nodes[3].Installable = true, true // the first of them does not fit for other reasons
	if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 2, Image: "noble"}, nodes, Kept{}, Project{}); e.Site != "dc2" || e.Fit != 2 || e.Reimages != 1 || e.Reasons[0].Nodes != 3 {
		t.Errorf("one node is reimaged: %+v", e)
	}
	nodes[0].Installable = true
	if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1, Image: "noble"}, nodes, Kept{}, Project{}); e.Site != "dc2" || e.Reimages != 2 {
		t.Errorf("the site whose node has the image goes first: %+v", e)
	}
	nodes[0].Installable, nodes[1].Installable, nodes[3].Installable = false, false, false
	if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 2, Image: "noble"}, nodes, Kept{}, Project{}); e.Refusal == nil || !strings.Contains(e.Refusal.Message, "no site has 2 nodes with image noble free") {
		t.Errorf("%+v", e)
	}
	if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1}, nil, Kept{}, Project{}); e.Refusal == nil || !strings.Contains(e.Refusal.Message, "there are no nodes") {
		t.Errorf("%+v", e)
	}
	nodes = nil
	for i := range 25 {
		nodes = append(nodes, node(fmt.Sprint("n-", i), "dc1", "node_silent"))
	}
	if e := ask(1, ""); e.Reasons[0].Nodes != 25 || len(e.Reasons[0].Examples) != 10 {
		t.Errorf("%d nodes, %d of them named", e.Reasons[0].Nodes, len(e.Reasons[0].Examples))
	}
}

// Nodes that are kept for other projects do not fit; what is kept for the project itself does.
func TestAnExplanationCountsWhatIsReserved(t *testing.T) {
	s := NewSKU()
	s.ID, s.Offer.Sites = "h100", []string{"dc1", "dc2"}
	var nodes []JudgedNode
	for i, site := range []string{"dc1", "dc1", "dc1", "dc2", "dc2", "dc3"} {
		nodes = append(nodes, JudgedNode{ID: fmt.Sprint("n-", i), Site: site})
	}
	kept := Keep([]Reservation{reservedFrom("a", "p", "dc1", 2, 0, 1), reservedFrom("b", "p", "", 1, 0, 1)}, nil, s.Free(nodes))
	for project, want := range map[string]string{"": "[{dc1 1 2} {dc2 2 0} {dc3 0 1}]", "p": "[{dc1 3 0} {dc2 2 0} {dc3 0 1}]"} {
		e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 2}, nodes, kept, Project{ID: project})
		if got := fmt.Sprint(e.Sites); got != want || (e.Site == "dc1") != (project == "p") {
			t.Errorf("for %q: %s at %q, want %s", project, got, e.Site, want)
		}
		if r := e.Reasons[0]; project == "" && (r.Code != "reserved" || r.Nodes != 2 || r.Examples[0].ID != "n-1" || !strings.Contains(r.Examples[0].Next, "hostler reservation list --sku h100")) {
			t.Errorf("the reason is %+v", r)
		}
		if len(nodes[1].Reasons) > 0 {
			t.Fatal("the caller's nodes were changed")
		}
	}
}

// What is kept for others are nodes without the image first, as a placement takes those with it first.
func TestAnExplanationKeepsNodesWithoutTheImageFirst(t *testing.T) {
	s := NewSKU()
	s.ID, s.Offer.Sites, s.Offer.Images = "h100", []string{"dc1", "dc2"}, []string{"noble"}
	nodes := []JudgedNode{
		{ID: "n-0", Site: "dc1", Image: "custom/rocm", Installable: true},
		{ID: "n-1", Site: "dc1", Image: "ubuntu/noble", Installable: true},
		{ID: "n-2", Site: "dc2", Image: "ubuntu/noble", Installable: true},
	}
	kept := Keep([]Reservation{reservedFrom("a", "p", "dc1", 1, 0, 1)}, nil, s.Free(nodes))
	e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1, Image: "noble"}, nodes, kept, Project{})
	if e.Site != "dc1" || e.Reimages != 0 || e.Reasons[0].Code != Reserved || e.Reasons[0].Examples[0].ID != "n-0" {
		t.Errorf("%+v", e)
	}
}

// Nodes that lack a label of the project do not fit, and count first as those that are kept for others.
func TestAnExplanationCountsNodesThatLackALabel(t *testing.T) {
	s := NewSKU()
	s.ID = "h100"
	gold := map[string]string{"tier": "gold", "rack": "a"}
	nodes := []JudgedNode{
		{ID: "n-1", Site: "dc1", Labels: gold},
		{ID: "n-2", Site: "dc1", Labels: map[string]string{"tier": "silver"}},
		{ID: "n-3", Site: "dc1", Labels: gold},
		{ID: "n-4", Site: "dc1", Reasons: []Reason{{Code: "frozen"}}},
		{ID: "n-5", Site: "dc1", Labels: gold},
	}
	asks := Project{ID: "p-1", Placement: ProjectPlacement{NodeLabels: gold}}
	for kept, want := range map[int]string{
		0: "fit 3: label_missing 2, frozen 1", 1: "fit 3: label_missing 2, frozen 1", 2: "fit 2: label_missing 2, frozen 1, reserved 1",
	} {
		of := Keep([]Reservation{{ProjectID: "p-2", Site: "dc1", Nodes: kept}}, nil, s.Free(nodes))
		e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1}, nodes, of, asks)
		var codes []string
		for _, r := range e.Reasons {
			codes = append(codes, fmt.Sprint(r.Code, " ", r.Nodes))
			if r.Code == LabelMissing && r.Examples[0].Next != "label the node, if it is meant for the project (hostler node label n-2 rack=a tier=gold)" {
				t.Errorf("the next action is %q", r.Examples[0].Next)
			}
		}
		if got := fmt.Sprintf("fit %d: %s", e.Fit, strings.Join(codes, ", ")); got != want {
			t.Errorf("%d are kept: %s, want %s", kept, got, want)
		}
	}
	if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 4}, nodes, Kept{}, Project{}); e.Refusal != nil || e.Fit != 4 {
		t.Errorf("for a project without labels: %+v", e)
	}
}

// A project's request is placed first where its own reservation is not filled.
func TestAnExplanationLooksFirstWhereTheProjectHasReserved(t *testing.T) {
	s := NewSKU()
	s.ID = "h100"
	nodes := []JudgedNode{{ID: "n-1", Site: "dc1"}, {ID: "n-2", Site: "dc2"}}
	reserved := []Reservation{{ProjectID: "p-1", Site: "dc2", Nodes: 1}}
	for want, held := range map[string][]HeldNodes{"dc2": nil, "dc1": {{ProjectID: "p-1", Site: "dc2", Nodes: 1}}} {
		kept := Keep(reserved, held, s.Free(nodes))
		if e := Explain(s, AllocationRequest{SKU: "h100", Nodes: 1}, nodes, kept, Project{ID: "p-1"}); e.Site != want {
			t.Errorf("with %v held: at %s, want %s", held, e.Site, want)
		}
	}
}

// The places are those of the nodes that a placement would choose at the site.
func TestAnExplanationCountsTheRacksOfTheNodes(t *testing.T) {
	s := NewSKU()
	s.ID = "h100"
	var nodes []JudgedNode
	for i, rack := range []string{"a", "a", "a", "b", "", "c"} {
		nodes = append(nodes, JudgedNode{ID: fmt.Sprint("n-", i), Site: "dc1", Place: NodePlace{Rack: rack}})
	}
	nodes[5].Reasons = []Reason{{Code: "node_status"}}
	nodes[0].Labels, nodes[3].Labels = map[string]string{"row": "r1"}, map[string]string{"row": "r2", "rack": "z"}
	nodes = append(nodes, JudgedNode{ID: "n-9", Site: "dc2", Place: NodePlace{Rack: "d"}})
	for name, c := range map[string]struct {
		nodes int
		a     Arrangement
		want  int
	}{
		"no arrangement":      {3, Arrangement{}, 0},
		"spread":              {3, Arrangement{Spread: "rack"}, 2},
		"spread over unknown": {2, Arrangement{Spread: "zone"}, 0},
		"packed":              {3, Arrangement{Pack: "rack"}, 1},
		"packed into two":     {4, Arrangement{Pack: "rack"}, 2},
		"packed, unknown":     {2, Arrangement{Pack: "zone"}, 2},
		"too many":            {6, Arrangement{Spread: "rack"}, 0},
		"spread by labels":    {3, Arrangement{Spread: "row"}, 2},
	} {
		e := Explain(s, AllocationRequest{SKU: s.ID, Nodes: c.nodes, Arrangement: c.a}, nodes, Kept{}, Project{})
		if e.Places != c.want {
			t.Errorf("%s: %d places (%v), want %d", name, e.Places, e.Refusal, c.want)
		}
	}
}
