package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo-reimage",
		"A tenant had root on a machine. What it says of itself is worth nothing from then on. MAAS is simulated, the machine is a QEMU guest.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A broker, a site, and a machine", Play: d.site},
				{Title: "From a BMC's address to an active node", Play: d.onboard},
				{Title: "A tenant with root", Play: d.tenant},
				{Title: "The same node, a fresh system; and the old one knocks", Play: d.reimage},
				{Title: "Somebody is to look, and the reimage goes on", Play: d.resume},
				{Title: "Proof, and what is on the disks", Play: d.proof},
				{Title: "Somebody releases the machine in MAAS", Play: d.drift},
				{Title: "The wrong disk, and the right one", Play: d.erase},
				{Title: "The end of a node", Play: d.decommission},
			}
			return scenes, []string{
				"make demo", "the way of a machine to its first tenant, and between two",
				"docs/how-to/turnover.md", "what a turnover does, and what the policy asks for",
				"docs/explanation/disk-erase.md", "how a disk is erased, what is refused, and what was not tried on a real drive",
				"docs/how-to/reconcile.md", "where MAAS and the nodes differ, and what is done about it",
				"docs/reference/certificate.md", "what a certificate says, and what it does not prove",
			}
		})
}
