package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo-allocation",
		"Two companies share one GPU machine, one after the other. MAAS and the GPUs' library are simulated, the machine is a QEMU guest.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A broker, from nothing, and its first node", Play: d.node},
				{Title: "Two projects, and what each may have", Play: d.tenants},
				{Title: "acme asks for a node, and logs in", Play: d.moveIn},
				{Title: "What acme leaves behind", Play: d.leave},
				{Title: "acme releases; the turnover begins by itself", Play: d.moveOut},
				{Title: "beta gets the same machine, and finds nothing", Play: d.next},
				{Title: "A receipt for each, and the hours of each", Play: d.receipts},
			}
			return scenes, []string{
				"make demo", "the way of a machine to its first node, and a turnover with a GPU that lies",
				"docs/how-to/allocations.md", "the states of an allocation, and what an operator does in each",
				"docs/how-to/tenants.md", "organisations, projects, members, keys, quotas and usage",
				"docs/reference/certificate.md", "what a certificate says, and what it does not prove",
			}
		})
}
