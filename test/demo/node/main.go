package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo",
		"Hostler looks after GPU machines between two tenants. This is one such machine, in QEMU, and a MAAS region, simulated.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A broker, from nothing", Play: d.broker},
				{Title: "A site: one MAAS region, and what it lacks", Play: d.site},
				{Title: "What would be done, before it is done", Play: d.plan},
				{Title: "From a BMC's address to an active node, whatever happens", Play: d.onboard},
				{Title: "A tenant moves in, and leaves things behind", Play: d.tenant},
				{Title: "Is this machine clean?", Play: d.dirty},
				{Title: "The turnover: whose node it is", Play: d.whose},
				{Title: "The turnover: seven GPUs are clean, and one lies", Play: d.turnover},
				{Title: "Nobody gets this machine", Play: d.keptFromUse},
				{Title: "The GPU is mended, and the turnover goes on", Play: d.mended},
				{Title: "Proof, for anybody", Play: d.proof},
				{Title: "What ran on this node, and how do we know?", Play: d.evidence},
				{Title: "Attacks", Play: d.attacks},
			}
			next := []string{
				"make demo-reimage", "a fresh system on the same node, erased disks, drift, and the end of a node",
				"make demo-onboarding", "a rack at once: a batch, what goes wrong there, and the stop button",
				"bin/hostler-broker serve --data-dir ./trial", "a broker of your own",
				"bin/hostler --config ./trial/client.yaml task describe node.validate_clean", "what is cleaned, what is only found",
				"docs/tutorial/walk.md", "a walk by hand",
				"docs/how-to/turnover.md", "what a turnover does, and what keeps a node out of use",
				"docs/explanation/security.md", "what an adversary can do",
			}
			return scenes, next
		})
}
