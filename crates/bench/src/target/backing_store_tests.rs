use super::*;

fn file(inode: u64) -> BackingStore {
    BackingStore::File(BackingFile {
        shown: (8, inode),
        inodes: BTreeSet::from([(8, inode)]),
        size: Some(1 << 30),
        is_certain: true,
    })
}

fn part(start: u64, size: u64) -> ByteRange {
    ByteRange::whole(file(1)).part(start, size).unwrap()
}

#[test]
fn byte_ranges_of_one_store_are_checked_for_overlap() {
    assert!(part(0, 0).overlaps(&part(4096, 512)));
    assert!(part(0, 4096).overlaps(&part(0, 1)));
    assert!(!part(0, 4096).overlaps(&part(4096, 4096)));
    assert!(part(0, 8192).part(4096, 0).unwrap().overlaps(&part(8191, 0)));
    assert!(!ByteRange::whole(file(1)).overlaps(&ByteRange::whole(file(2))));
    assert!(!ByteRange::whole(file(1)).overlaps(&ByteRange::whole(BackingStore::Device("7:0".into()))));
}

#[test]
fn a_part_of_a_part_is_where_the_upper_device_has_it() {
    // A volume of two ranges: bytes 0 to 4096 are at 8192 of the file, the next ones at 0.
    let volume = [part(8192, 4096), part(0, 4096).moved(4096)];
    let second_half: Vec<ByteRange> = volume.into_iter().filter_map(|range| range.part(4096, 0)).collect();
    assert_eq!(second_half.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>(), [(0, 4096)]);
}

#[test]
fn devices_on_one_array_have_in_common_what_they_have_of_the_array() {
    let array = || {
        let own = ByteRange::whole(BackingStore::Device("9:0".into()));
        [own, ByteRange::whole(file(1)).spread("md0")]
    };
    let partition =
        |start, size| -> Vec<ByteRange> { array().into_iter().filter_map(|range| range.part(start, size)).collect() };
    let overlap = |a: &[ByteRange], b: &[ByteRange]| a.iter().any(|a| b.iter().any(|b| a.overlaps(b)));
    assert!(!overlap(&partition(0, 4096), &partition(4096, 4096)));
    assert!(overlap(&partition(0, 4096), &partition(4095, 4096)));
    assert!(overlap(&partition(0, 4096), &[part(1 << 20, 512)]), "the array may have it anywhere on its member");
}
