package maassim

import (
	"encoding/json"
	"fmt"
	"time"
)

type poolBody struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	ID          int    `json:"id"`
	ResourceURI string `json:"resource_uri"`
}

type domainBody struct {
	Authoritative       bool   `json:"authoritative"`
	TTL                 *int   `json:"ttl"`
	IsDefault           bool   `json:"is_default"`
	ResourceRecordCount int    `json:"resource_record_count"`
	Name                string `json:"name"`
	ID                  int    `json:"id"`
	ResourceURI         string `json:"resource_uri"`
}

type gatewayBody struct {
	GatewayIP *string `json:"gateway_ip"`
	LinkID    *int    `json:"link_id"`
}

type numaBody struct {
	Index        int   `json:"index"`
	Memory       int   `json:"memory"`
	Cores        []int `json:"cores"`
	HugepagesSet []any `json:"hugepages_set"`
}

// machineBody is a machine in the API's form. Field order follows 3.4.10; fields of later versions
// stand at the end.
type machineBody struct {
	SystemID       string            `json:"system_id"`
	Hostname       string            `json:"hostname"`
	FQDN           string            `json:"fqdn"`
	Description    string            `json:"description"`
	Status         Status            `json:"status"`
	StatusName     string            `json:"status_name"`
	StatusMessage  *string           `json:"status_message"`
	StatusAction   *string           `json:"status_action"`
	Owner          *string           `json:"owner"`
	OwnerData      map[string]string `json:"owner_data"`
	Annotations    map[string]string `json:"workload_annotations"`
	Locked         bool              `json:"locked"`
	Netboot        bool              `json:"netboot"`
	Ephemeral      bool              `json:"ephemeral_deploy"`
	Pool           poolBody          `json:"pool"`
	Zone           poolBody          `json:"zone"`
	Domain         domainBody        `json:"domain"`
	Parent         *string           `json:"parent"`
	Pod            *string           `json:"pod"`
	TagNames       []string          `json:"tag_names"`
	AddressTTL     *int              `json:"address_ttl"`
	DisableIPv4    bool              `json:"disable_ipv4"`
	NodeType       int               `json:"node_type"`
	NodeTypeName   string            `json:"node_type_name"`
	VirtualMachine *int              `json:"virtualmachine_id"`
	HardwareUUID   *string           `json:"hardware_uuid"`
	BiosBootMethod *string           `json:"bios_boot_method"`
	ResourceURI    string            `json:"resource_uri"`

	PowerType    string `json:"power_type"`
	PowerState   string `json:"power_state"`
	OSystem      string `json:"osystem"`
	DistroSeries string `json:"distro_series"`
	HWEKernel    string `json:"hwe_kernel"`
	MinHWEKernel string `json:"min_hwe_kernel"`
	Architecture string `json:"architecture"`

	EnableHWSync bool    `json:"enable_hw_sync"`
	SyncInterval *int    `json:"sync_interval"`
	LastSync     *string `json:"last_sync"`
	NextSync     *string `json:"next_sync"`

	CPUCount     int               `json:"cpu_count"`
	CPUSpeed     int               `json:"cpu_speed"`
	Memory       int               `json:"memory"`
	SwapSize     *int64            `json:"swap_size"`
	Storage      json.Number       `json:"storage"`
	HardwareInfo map[string]string `json:"hardware_info"`
	NUMANodes    []numaBody        `json:"numanode_set"`

	BootInterface       *interfaceBody         `json:"boot_interface"`
	Interfaces          []interfaceBody        `json:"interface_set"`
	IPAddresses         []string               `json:"ip_addresses"`
	DefaultGateways     map[string]gatewayBody `json:"default_gateways"`
	BootDisk            *machineDiskBody       `json:"boot_disk"`
	BlockDevices        []machineDiskBody      `json:"blockdevice_set"`
	PhysicalDisks       []machineDiskBody      `json:"physicalblockdevice_set"`
	VirtualDisks        []any                  `json:"virtualblockdevice_set"`
	VolumeGroups        []any                  `json:"volume_groups"`
	RAIDs               []any                  `json:"raids"`
	BCaches             []any                  `json:"bcaches"`
	CacheSets           []any                  `json:"cache_sets"`
	SpecialFilesystems  []any                  `json:"special_filesystems"`
	CommissioningStatus int                    `json:"commissioning_status"`
	TestingStatus       int                    `json:"testing_status"`
	CPUTest             int                    `json:"cpu_test_status"`
	MemoryTest          int                    `json:"memory_test_status"`
	StorageTest         int                    `json:"storage_test_status"`
	NetworkTest         int                    `json:"network_test_status"`
	InterfaceTest       int                    `json:"interface_test_status"`
	OtherTest           int                    `json:"other_test_status"`
	CommissioningName   string                 `json:"commissioning_status_name"`
	TestingName         string                 `json:"testing_status_name"`
	CPUTestName         string                 `json:"cpu_test_status_name"`
	MemoryTestName      string                 `json:"memory_test_status_name"`
	StorageTestName     string                 `json:"storage_test_status_name"`
	NetworkTestName     string                 `json:"network_test_status_name"`
	InterfaceTestName   string                 `json:"interface_test_status_name"`
	OtherTestName       string                 `json:"other_test_status_name"`
	CommissioningResult *int                   `json:"current_commissioning_result_id"`
	TestingResult       *int                   `json:"current_testing_result_id"`
	InstallationResult  *int                   `json:"current_installation_result_id"`

	ErrorDescription *string `json:"error_description,omitempty"`        // 3.5
	CrashDump        *bool   `json:"enable_kernel_crash_dump,omitempty"` // 3.6
}

// hardwareFields are the keys of hardware_info; each value is Unknown until discovered.
var hardwareFields = []string{
	"system_vendor", "system_product", "system_family", "system_version", "system_sku", "system_serial", "cpu_model",
	"mainboard_vendor", "mainboard_product", "mainboard_serial", "mainboard_version", "mainboard_firmware_vendor",
	"mainboard_firmware_date", "mainboard_firmware_version", "chassis_vendor", "chassis_type", "chassis_serial", "chassis_version",
}

// body returns the machine in the form of this version's API.
func (m *machine) body() machineBody {
	r := m.region
	none, disks := []any{}, m.disksOfBody()
	b := machineBody{
		SystemID: m.systemID, Hostname: m.hostname, FQDN: m.hostname + ".maas", Description: m.description,
		Status: m.status, StatusName: m.status.String(), StatusAction: ptr(""),
		OwnerData: m.annotations, Annotations: m.annotations, Locked: m.locked, Netboot: true, Ephemeral: m.ephemeral,
		Pool:     r.poolNamed(m.pool).body(),
		Zone:     m.zone,
		Domain:   domainBody{Authoritative: true, IsDefault: true, Name: "maas", ResourceURI: "/MAAS/api/2.0/domains/0/"},
		TagNames: []string{}, NodeTypeName: "Machine", ResourceURI: "/MAAS/api/2.0/machines/" + m.systemID + "/",
		PowerType: m.powerType, PowerState: m.powerState, OSystem: m.osystem, DistroSeries: m.series, HWEKernel: m.kernel,
		MinHWEKernel: m.minKernel, Architecture: m.architecture,
		EnableHWSync: m.syncs, LastSync: r.stamp(m.lastSync),
		CPUCount: m.cpus, Memory: m.memory, HardwareInfo: map[string]string{},
		NUMANodes:  []numaBody{{Memory: m.memory, Cores: []int{}, HugepagesSet: none}},
		Interfaces: m.interfaceBodies(), IPAddresses: m.addresses(),
		DefaultGateways: map[string]gatewayBody{"ipv4": {GatewayIP: m.gateway()}, "ipv6": {}},
		BlockDevices:    disks, PhysicalDisks: disks, VirtualDisks: none, VolumeGroups: none, RAIDs: none, BCaches: none,
		CacheSets: none, SpecialFilesystems: none,
		CommissioningStatus: -1, TestingStatus: -1, CPUTest: -1, MemoryTest: -1, StorageTest: -1, NetworkTest: -1, InterfaceTest: -1,
		OtherTest:         -1,
		CommissioningName: "Unknown", TestingName: "Unknown", CPUTestName: "Unknown", MemoryTestName: "Unknown", StorageTestName: "Unknown",
		NetworkTestName: "Unknown", InterfaceTestName: "Unknown", OtherTestName: "Unknown",
		CommissioningResult: m.result("commissioning"), TestingResult: m.result("testing"), InstallationResult: m.result("installation"),
	}
	if m.said > 0 && !m.statusUnsaid {
		b.StatusMessage = &m.statusMessage
	}
	if m.owner != "" {
		b.Owner = &m.owner
	}
	if m.commissioned {
		b.CommissioningStatus, b.CommissioningName = 2, "Passed"
		b.BiosBootMethod = ptr("uefi")
	}
	if m.syncs {
		b.SyncInterval = &m.syncInterval
		if !m.lastSync.IsZero() {
			b.NextSync = r.stamp(m.lastSync.Add(time.Duration(m.syncInterval) * time.Second))
		}
	}
	total := int64(0)
	for _, d := range m.disks {
		total += d.Size
	}
	b.Storage = json.Number(fmt.Sprintf("%.1f", float64(total)/1e6))
	for _, name := range hardwareFields {
		b.HardwareInfo[name] = "Unknown"
		if v := m.hardwareInfo[name]; v != "" {
			b.HardwareInfo[name] = v
		}
	}
	if len(b.Interfaces) > 0 {
		b.BootInterface = &b.Interfaces[0]
	}
	if d := m.boot(); d != nil {
		b.BootDisk = &machineDiskBody{diskBody: m.diskBody(d)}
	}
	if r.since("3.5") {
		b.ErrorDescription = &m.errorDescription
	}
	if r.since("3.6") {
		b.CrashDump = ptr(false)
	}
	return b
}

func (m *machine) result(kind string) *int {
	if id, found := m.results[kind]; found {
		return &id
	}
	return nil
}

func (m *machine) gateway() *string {
	for _, i := range m.interfaces {
		for _, l := range i.links {
			if l.subnet != nil && l.subnet.gateway != "" && l.mode != "link_up" {
				return &l.subnet.gateway
			}
		}
	}
	return nil
}
