package maassim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// DoorPath is the path of a region's Door, if the region has one. MAAS serves nothing at that path.
const DoorPath = "/sim/"

// Door is the simulator's own API for a test that plays the data centre and cannot call Go: the
// door lists the rack, mends hardware, and injects faults. The door has no authentication; a region
// has a door only if its server adds one.
//
//	GET    /sim/hardware                      what stands in the rack
//	POST   /sim/hardware/BMC/disks            puts a Disk in, as JSON
//	DELETE /sim/hardware/BMC/disks/NAME       takes one out
//	POST   /sim/hardware/BMC/pxe              boots it from the network, past MAAS
//	POST   /sim/faults                        a Fault, as JSON
//	DELETE /sim/faults                        takes all of them back
func (r *Region) Door() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+DoorPath+"hardware", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.stands())
	})
	mux.HandleFunc("POST "+DoorPath+"hardware/{bmc}/disks", func(w http.ResponseWriter, req *http.Request) {
		var d Disk
		if !read(w, req, &d) {
			return
		}
		if d.Name == "" || d.Serial == "" || d.Size <= 0 {
			http.Error(w, "cannot put a disk in: it needs Name, Serial and Size (bytes)", http.StatusBadRequest)
			return
		}
		done(w, r.Mend(req.PathValue("bmc"), func(h *Hardware) { h.Disks = append(without(h.Disks, d.Name), d) }))
	})
	mux.HandleFunc("DELETE "+DoorPath+"hardware/{bmc}/disks/{name}", func(w http.ResponseWriter, req *http.Request) {
		done(w, r.Mend(req.PathValue("bmc"), func(h *Hardware) { h.Disks = without(h.Disks, req.PathValue("name")) }))
	})
	mux.HandleFunc("POST "+DoorPath+"hardware/{bmc}/pxe", func(w http.ResponseWriter, req *http.Request) {
		done(w, r.BootPXE(req.PathValue("bmc")))
	})
	mux.HandleFunc("POST "+DoorPath+"faults", func(w http.ResponseWriter, req *http.Request) {
		var f Fault
		if !read(w, req, &f) {
			return
		}
		if !slices.Contains(Faults, f.Kind) {
			http.Error(w, "cannot make trouble: Kind is none of those in faults.go", http.StatusBadRequest)
			return
		}
		r.Inject(f)
		done(w, nil)
	})
	mux.HandleFunc("DELETE "+DoorPath+"faults", func(w http.ResponseWriter, _ *http.Request) {
		r.Relent()
		done(w, nil)
	})
	return mux
}

// standing is a piece of hardware in the door's answer.
type standing struct {
	Serial, BMC string
	On          bool
	Disks       []Disk
}

func (r *Region) stands() []standing {
	defer r.enter()()
	all := []standing{}
	for _, h := range r.metals {
		all = append(all, standing{Serial: h.Serial, BMC: h.BMC.Address, On: h.on, Disks: slices.Clone(h.Disks)})
	}
	slices.SortFunc(all, func(a, b standing) int { return strings.Compare(a.Serial, b.Serial) })
	return all
}

// without returns a copy, so that the disks MAAS discovered earlier stay unchanged.
func without(disks []Disk, name string) []Disk {
	return slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool { return d.Name == name })
}

func read(w http.ResponseWriter, req *http.Request, out any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, req.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		http.Error(w, "cannot read the JSON: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
