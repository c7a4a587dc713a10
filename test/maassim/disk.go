package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// disk is a physical block device in MAAS's record. A storage layout puts the root partition on one
// disk.
type disk struct {
	Disk
	id   int
	root *partition
}

type partition struct {
	id               int
	uuid, filesystem string
}

type filesystemBody struct {
	FSType       string  `json:"fstype"`
	Label        string  `json:"label"`
	UUID         string  `json:"uuid"`
	MountPoint   string  `json:"mount_point"`
	MountOptions *string `json:"mount_options"`
}

type partitionBody struct {
	UUID        string          `json:"uuid"`
	Size        int64           `json:"size"`
	Bootable    bool            `json:"bootable"`
	Tags        []string        `json:"tags"`
	DeviceID    int             `json:"device_id"`
	Path        string          `json:"path"`
	Filesystem  *filesystemBody `json:"filesystem"`
	SystemID    string          `json:"system_id"`
	UsedFor     string          `json:"used_for"`
	Type        string          `json:"type"`
	ID          int             `json:"id"`
	ResourceURI string          `json:"resource_uri"`
}

type diskBody struct {
	Model              string          `json:"model"`
	SystemID           string          `json:"system_id"`
	Name               string          `json:"name"`
	Tags               []string        `json:"tags"`
	UUID               *string         `json:"uuid"`
	BlockSize          int             `json:"block_size"`
	PartitionTableType *string         `json:"partition_table_type"`
	Type               string          `json:"type"`
	Partitions         []partitionBody `json:"partitions"`
	Filesystem         *filesystemBody `json:"filesystem"`
	AvailableSize      int64           `json:"available_size"`
	UsedFor            string          `json:"used_for"`
	NUMANode           int             `json:"numa_node"`
	StoragePool        *string         `json:"storage_pool"`
	ID                 int             `json:"id"`
	Serial             string          `json:"serial"`
	Path               string          `json:"path"`
	Size               int64           `json:"size"`
	IDPath             string          `json:"id_path"`
	UsedSize           int64           `json:"used_size"`
	ResourceURI        string          `json:"resource_uri"`
}

// machineDiskBody is a disk within a machine's body, with more fields than diskBody.
type machineDiskBody struct {
	diskBody
	FirmwareVersion *string `json:"firmware_version"`
}

const mebibyte = 1 << 20

// rootSize is the size of the root partition of a flat layout, and usedSize the size of the disk's
// used part, both in bytes: partitions end at whole 4 MiB, the partition table takes 6 MiB.
func rootSize(disk int64) int64 { return (disk - 6*mebibyte) / (4 * mebibyte) * (4 * mebibyte) }
func usedSize(disk int64) int64 { return rootSize(disk) + 6*mebibyte }

func (m *machine) diskBody(d *disk) diskBody {
	uri := fmt.Sprintf("/MAAS/api/2.0/nodes/%s/blockdevices/%d/", m.systemID, d.id)
	b := diskBody{
		Model: d.Model, SystemID: m.systemID, Name: d.Name, Tags: []string{}, BlockSize: 512, Type: "physical",
		Partitions:    []partitionBody{},
		AvailableSize: d.Size, UsedFor: "Unused", ID: d.id, Serial: d.Serial, Path: "/dev/disk/by-dname/" + d.Name, Size: d.Size,
		IDPath: d.IDPath, ResourceURI: uri,
	}
	if d.root != nil {
		b.PartitionTableType = ptr("GPT")
		b.AvailableSize, b.UsedSize, b.UsedFor = 0, usedSize(d.Size), "GPT partitioned with 1 partition"
		b.Partitions = append(b.Partitions, partitionBody{
			UUID: d.root.uuid, Size: rootSize(d.Size), Tags: []string{}, DeviceID: d.id, Path: b.Path + "-part2",
			Filesystem: &filesystemBody{FSType: "ext4", Label: "root", UUID: d.root.filesystem, MountPoint: "/"}, SystemID: m.systemID,
			UsedFor: "ext4 formatted filesystem mounted at /", Type: "partition", ID: d.root.id,
			ResourceURI: fmt.Sprintf("%spartition/%d", uri, d.root.id),
		})
	}
	return b
}

func (m *machine) diskBodies() []diskBody {
	all := []diskBody{}
	for _, d := range m.disks {
		all = append(all, m.diskBody(d))
	}
	return all
}

func (m *machine) disksOfBody() []machineDiskBody {
	all := []machineDiskBody{}
	for _, d := range m.disks {
		all = append(all, machineDiskBody{diskBody: m.diskBody(d)})
	}
	return all
}

func (m *machine) addDisk(d Disk) *disk {
	nd := &disk{Disk: d, id: m.region.id("disk")}
	m.disks = append(m.disks, nd)
	return nd
}

// boot returns the machine's boot disk: the disk that was set, else the first large enough disk,
// else nil.
func (m *machine) boot() *disk {
	for _, d := range m.disks {
		if d.id == m.bootDisk {
			return d
		}
	}
	for _, d := range m.disks {
		if d.Size >= 512*mebibyte {
			return d
		}
	}
	return nil
}

// layOut puts the root file system on the disk; nil, for a blank layout, removes it.
func (m *machine) layOut(on *disk) {
	for _, d := range m.disks {
		d.root = nil
	}
	if on != nil {
		on.root = &partition{m.region.id("partition"), m.region.uuid(), m.region.uuid()}
	}
}

func (m *machine) hasRoot() bool {
	return slices.ContainsFunc(m.disks, func(d *disk) bool { return d.root != nil })
}

func (c *call) listDisks() answer { return ok(c.machine.diskBodies()) }

// disk returns the disk with the id, nil if the machine has no such disk.
func (m *machine) disk(id string) *disk {
	i := slices.IndexFunc(m.disks, func(d *disk) bool { return strconv.Itoa(d.id) == id })
	if i < 0 {
		return nil
	}
	return m.disks[i]
}

func (c *call) readDisk() answer {
	if d := c.machine.disk(c.req.PathValue("id")); d != nil {
		return ok(c.machine.diskBody(d))
	}
	return absent("BlockDevice")
}

func (c *call) setBootDisk() answer {
	m := c.machine
	d := m.disk(c.req.PathValue("id"))
	switch {
	case d == nil:
		return absent("BlockDevice")
	case m.status != Ready:
		return conflict("Cannot set as boot disk because the machine is not Ready.")
	}
	m.change("boot_disk", fmt.Sprint(m.bootDisk), d.Serial)
	m.bootDisk = d.id
	return text(http.StatusOK, "OK")
}

// setStorageLayout implements flat and blank; every other layout puts the root file system where
// flat does.
func (c *call) setStorageLayout() answer {
	m, layout := c.machine, c.params.Get("storage_layout")
	if m.status != Ready {
		return conflict("Cannot change the storage layout on a machine that is not Ready.")
	}
	on := m.boot()
	switch layout {
	case "flat", "lvm", "bcache", "vmfs6", "vmfs7", "custom":
		if given := c.params.Get("root_device"); given != "" {
			if on = m.disk(given); on == nil {
				return invalid("root_device", fmt.Sprintf("'%s' is not a valid root device.", given))
			}
		}
		if on == nil {
			return text(http.StatusBadRequest,
				"Failed to configure storage layout '%s': Node doesn't have any storage devices to configure.", layout)
		}
	case "blank":
		on = nil
	case "":
		return invalid("storage_layout", "This field is required.")
	default:
		return invalid("storage_layout", fmt.Sprintf("'%s' is not a valid storage layout.", layout))
	}
	m.layOut(on)
	m.change("storage_layout", "", layout)
	return ok(m.body())
}
