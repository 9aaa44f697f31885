//! The tests that `VersityGW` brings for any server of S3: those that this door passes, each by its name.
//!
//! docs/experiments.md counts the others, and says why they fail.

use std::process::Command;

use crate::support::policy::{rule, subject, write_policy};
use crate::support::prelude::*;
use crate::support::s3::VersityGw;

const SECRET: &str = "secret-of-the-tests-0123456789";

/// How many run at once, each at a server of its own: all of them begin with the same name of a bucket.
const AT_ONCE: usize = 4;

/// Without a row: what takes seconds, and what judges the words of an error.
const NAMES: &str = "
    AbortMultipartUpload_incorrect_object_key AbortMultipartUpload_incorrect_uploadId AbortMultipartUpload_success
    AbortMultipartUpload_success_status_code Authentication_credentials_future_date
    Authentication_credentials_past_date Authentication_unsigned_non_required_header Authentication_with_expect_header
    CompleteMultipartUpload_should_verify_the_final_checksum CompleteMultipartUpload_with_metadata
    CopyObject_copy_source_starting_with_slash CopyObject_success CopyObject_to_itself_with_new_metadata
    CopyObject_with_metadata CopyObject_with_special_characters CreateMultipartUpload_success
    DeleteBucket_success_status_code DeleteObject_directory_object DeleteObject_directory_object_noslash
    DeleteObject_non_empty_dir_obj DeleteObject_non_existing_dir_object DeleteObject_non_existing_object
    DeleteObject_success DeleteObject_success_status_code DeleteObjects_non_existing_objects DeleteObjects_success
    GetBucketLocation_success GetObjectAttributes_existing_object GetObjectAttributes_invalid_parent
    GetObjectAttributes_non_existing_object GetObjectTagging_unset_tags GetObject_directory_object_noslash
    GetObject_incidental_dir_object GetObject_invalid_parent GetObject_non_existing_dir_object
    GetObject_non_existing_key GetObject_not_enabled_checksum_mode HeadBucket_non_existing_bucket HeadBucket_success
    HeadObject_directory_object_noslash HeadObject_incidental_dir_object HeadObject_invalid_parent_dir
    HeadObject_invalid_part_number HeadObject_non_existing_dir_object HeadObject_non_existing_object
    HeadObject_not_enabled_checksum_mode HeadObject_range_and_part_number HeadObject_ranged_with_checksum_mode
    ListMultipartUploads_both_delimiter_and_prefix ListMultipartUploads_empty_result
    ListMultipartUploads_exceeding_max_uploads ListMultipartUploads_ignore_upload_id_marker
    ListMultipartUploads_max_uploads ListMultipartUploads_prefix ListObjectsV2_all_objs_max_keys
    ListObjectsV2_both_delimiter_and_prefix ListObjectsV2_full_pagination ListObjectsV2_invalid_parent_prefix
    ListObjectsV2_mp_masking_delimiter ListObjectsV2_mp_masking_start_after ListObjectsV2_mp_masking_truncation
    ListObjectsV2_non_truncated_common_prefixes ListObjectsV2_pagination_with_delimiter
    ListObjectsV2_should_not_list_pending_mps ListObjectsV2_single_dir_object_with_delim_and_prefix
    ListObjectsV2_start_after ListObjectsV2_start_after_empty_result ListObjectsV2_start_after_not_in_list
    ListObjectsV2_truncated_common_prefixes ListObjectsV2_with_owner ListObjects_check_owner ListObjects_delimiter
    ListObjects_marker_not_from_obj_list ListObjects_max_keys_0 ListObjects_max_keys_none
    ListObjects_mp_masking_delimiter ListObjects_mp_masking_truncation ListObjects_mp_masking_with_marker
    ListObjects_nested_dir_file_objs ListObjects_non_existing_bucket ListObjects_non_truncated_common_prefixes
    ListObjects_paginated ListObjects_should_not_list_pending_mps ListObjects_truncated ListObjects_with_prefix
    ListParts_default_max_parts ListParts_success PresignedAuth_PutObject_success
    PresignedAuth_Put_GetObject_with_UTF8_chars PresignedAuth_Put_GetObject_with_data PresignedAuth_UploadPart
    PresignedAuth_unsigned_non_required_header PutObject_false_negative_object_names PutObject_should_combine_metadata
    PutObject_special_chars UploadPartCopy_by_range_success UploadPartCopy_should_not_copy_the_checksum
    UploadPartCopy_success UploadPart_etag_quoting_consistency UploadPart_success
";

#[test]
fn its_tests_of_a_server_pass() {
    directory_only!("buckets");
    let Some(program) = VersityGw::required() else {
        return;
    };
    let names = words(NAMES);
    let failures = &|names: &[&str]| {
        let dir = DataDir::temporary();
        let all = ["read", "write", "delete", "list"];
        let key = format!("s3-key = \"ANN\"\ns3-secret = \"{SECRET}\"\n");
        let policy = [subject("ann"), key, rule("ann", "", &all)].concat();
        let path = write_policy(&dir, &policy);
        let launch = Launch::new(&["--access", &path]).listen("s3+http://127.0.0.1:0");
        let server = launch.on(&dir).start();
        let endpoint = format!("http://{}", server.addr);
        let mut failures = Vec::new();
        for name in names {
            let mut test = Command::new(&program);
            test.args(["test", "-a", "ANN", "-s", SECRET, "-e", &endpoint, name]);
            let ended = test
                .env_remove("AWS_CA_BUNDLE")
                .output()
                .expect("a program");
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            if !said.contains("PASS ") || said.contains("FAIL ") {
                failures.push(said);
            }
        }
        failures
    };
    let failures: Vec<_> = std::thread::scope(|scope| {
        let groups = names.chunks(names.len().div_ceil(AT_ONCE));
        let running: Vec<_> = groups
            .map(|names| scope.spawn(move || failures(names)))
            .collect();
        let ended = running.into_iter().map(|it| it.join().expect("a thread"));
        ended.flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
